"""Who belongs to an account: members and invitations, and the page an invitation leads to."""

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from clients import audit, invitations, keys, members
from clients.members import LastOwner, Role
from clients.models import Invitation, Membership
from dashboard import pending_invitation
from dashboard.access import Place, account_page
from dashboard.forms import sent
from simservice.api.addresses import base_url
from simservice.web import mail

LAST_OWNER = "An account needs at least one owner. Make someone else an owner first."
SHOWN_KEYS = 50
# The least first.
ROLES = [(role.value, role.label) for role in (Role.VIEWER, Role.MEMBER, Role.OWNER)]


class InviteForm(forms.Form):
    email = forms.EmailField(label="Email address", max_length=254, widget=forms.EmailInput())
    role = forms.ChoiceField(label="Role", choices=ROLES, initial=Role.MEMBER)


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=Role.choices)


@account_page(post=Role.OWNER)
def people(request: HttpRequest, place: Place) -> HttpResponse:
    """List the account's people and open invitations; invite somebody."""
    form = InviteForm(sent(request))
    if form.is_valid():
        try:
            made, token = invitations.invite(place.account, by=place.actor, **form.cleaned_data)
        except invitations.Refused as error:
            form.add_error("email", str(error))
        else:
            return show_invitation(request, place, made, token)
    context = {
        "section": "people",
        "members": members.members_of(place.account),
        "invitations": invitations.of_account(place.account),
        "roles": ROLES,
        "form": form,
        "may_invite": place.may_manage and bool(members.verified_address(place.user)),
    }
    return render(request, "dashboard/people.html", context)


def show_invitation(request: HttpRequest, place: Place, made: Invitation, token: str) -> HttpResponse:
    """Send an invitation's link, and show it once to its creator."""
    link = base_url(request) + reverse("invitation", args=[token])
    context = {"section": "people", "place": place, "invitation": made, "link": link}
    context["owner"] = invitations.owner_address(made)
    subject = f"Invitation to {place.account} at {settings.SERVICE_BRAND}"
    was_sent = mail.send("mail/invitation.txt", to=made.email, subject=subject, context=context)
    return render(request, "dashboard/invited.html", {**context, "was_sent": was_sent})


@account_page(post=Role.OWNER, get=False)
def revoke_invitation(request: HttpRequest, place: Place, invitation_id: int) -> HttpResponse:
    """Revoke an invitation."""
    found = invitations.revoke(place.account, invitation_id, by=place.actor)
    if found is None:
        raise Http404
    messages.success(request, f"Invitation of {found.email} revoked.")
    return redirect("people", place.account.name)


@account_page(post=Role.OWNER, get=False)
def change_role(request: HttpRequest, place: Place, member_id: int) -> HttpResponse:
    """Give a member another role."""
    form = RoleForm(request.POST)
    if not form.is_valid():
        raise Http404
    role = Role(form.cleaned_data["role"])
    try:
        found = members.change_role(place.account, member_id, role, by=place.actor)
    except LastOwner:
        messages.error(request, LAST_OWNER)
        return redirect("people", place.account.name)
    if found is None:
        raise Http404
    messages.success(request, f"{audit.name_of(found.user)} is now {role.label.lower()}.")
    return redirect("people", place.account.name)


@account_page(read=Role.OWNER, post=Role.OWNER)
def remove(request: HttpRequest, place: Place, member_id: int) -> HttpResponse:
    """Ask for confirmation, then take a member out of the account."""
    found = get_object_or_404(members.members_of(place.account), pk=member_id)
    told = f"{audit.name_of(found.user)} no longer belongs to this account."
    return take_out(request, place, found, told=told, then=reverse("people", args=[place.account.name]))


@account_page(post=Role.VIEWER)
def leave(request: HttpRequest, place: Place) -> HttpResponse:
    """Ask for confirmation, then take the user out of the account."""
    told = f"You no longer belong to {place.account}."
    return take_out(request, place, place.membership, told=told, then=reverse("dashboard"))


def take_out(request: HttpRequest, place: Place, leaving: Membership, *, told: str, then: str) -> HttpResponse:
    """Show the active keys of a member who leaves; on POST, remove the member. Raises Http404."""
    if request.method != "POST":
        created = keys.active_keys_of(leaving.user, place.account)
        context = {
            "section": "people",
            "leaving": leaving,
            "who": audit.name_of(leaving.user),
            "is_self": leaving.user == place.user,
            "is_only_owner": members.is_only_owner(leaving),
            "count": created.count(),
            "keys": created[:SHOWN_KEYS],
        }
        return render(request, "dashboard/remove_member.html", context)
    try:
        found = members.remove(place.account, leaving.pk, by=place.actor, revoke_keys="revoke_keys" in request.POST)
    except LastOwner:
        messages.error(request, LAST_OWNER)
        return redirect("people", place.account.name)
    if found is None:
        raise Http404
    messages.success(request, told)
    return redirect(then)


@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Show an invitation to anyone with its link; accept it for a user who is logged in."""
    found = invitations.find(token)
    if found is None:
        return render(request, "account/invitation_closed.html", status=404)
    if request.method != "POST":
        pending_invitation.remember(request, found)
        context = {"owner": invitations.owner_address(found), "membership": own(request, found)}
        return render(request, "account/invitation.html", {"invitation": found, **context})
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    try:
        membership = invitations.accept(found, request.user, by=audit.member(request.user, request))
    except invitations.NotOpen:
        return render(request, "account/invitation_closed.html", status=404)
    pending_invitation.forget(request)
    messages.success(request, f"You are now {membership.get_role_display().lower()} of {found.account}.")
    return redirect("overview", found.account.name)


def own(request: HttpRequest, found: Invitation) -> Membership | None:
    """Return the visitor's place in the account that they are invited to, if they have one."""
    if not request.user.is_authenticated:
        return None
    return Membership.objects.filter(user=request.user, account=found.account).first()
