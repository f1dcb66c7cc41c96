"""Who belongs to an account: members and invitations, and the page an invitation leads to."""

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from clients import invitations, members
from clients.members import LastOwner, Role
from clients.models import Invitation, Membership
from dashboard import invited, mails
from dashboard.access import Place, account_page
from dashboard.forms import sent
from simservice.api.addresses import base_url

LAST_OWNER = "An account keeps at least one owner. Make somebody else an owner first."
# The least first.
ROLES = [(role.value, role.label) for role in (Role.VIEWER, Role.MEMBER, Role.OWNER)]


class InviteForm(forms.Form):
    email = forms.EmailField(label="E-mail address", max_length=254, widget=forms.EmailInput())
    role = forms.ChoiceField(label="Role", choices=ROLES, initial=Role.MEMBER)


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=Role.choices)


@account_page(post=Role.OWNER)
def people(request: HttpRequest, place: Place) -> HttpResponse:
    """List the account's people and open invitations; invite somebody."""
    form = InviteForm(sent(request))
    if form.is_valid():
        try:
            made, token = invitations.invite(place.account, by=place.user, **form.cleaned_data)
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
    """Send an invitation's link, and show it to whoever made it: this once."""
    link = base_url(request) + reverse("invitation", args=[token])
    context = {"section": "people", "place": place, "invitation": made, "link": link}
    context["owner"] = invitations.owner_address(made)
    subject = f"Invitation to {place.account} at {settings.SERVICE_BRAND}"
    was_sent = mails.send("mail/invitation.txt", to=made.email, subject=subject, context=context)
    return render(request, "dashboard/invited.html", {**context, "was_sent": was_sent})


@account_page(post=Role.OWNER, get=False)
def revoke_invitation(request: HttpRequest, place: Place, invitation_id: int) -> HttpResponse:
    """Close an invitation."""
    found = invitations.revoke(place.account, invitation_id)
    if found is None:
        raise Http404
    messages.success(request, f"The invitation of {found.email} is no longer open.")
    return redirect("people", place.account.name)


@account_page(post=Role.OWNER, get=False)
def change_role(request: HttpRequest, place: Place, member_id: int) -> HttpResponse:
    """Give a member another role."""
    form = RoleForm(request.POST)
    if not form.is_valid():
        raise Http404
    return answer(request, place, member_id, Role(form.cleaned_data["role"]))


@account_page(post=Role.OWNER, get=False)
def remove(request: HttpRequest, place: Place, member_id: int) -> HttpResponse:
    """Take a member out of the account."""
    return answer(request, place, member_id, None)


@account_page(post=Role.VIEWER, get=False)
def leave(request: HttpRequest, place: Place) -> HttpResponse:
    """Leave the account."""
    try:
        members.remove(place.account, place.membership.pk)
    except LastOwner:
        messages.error(request, LAST_OWNER)
        return redirect("people", place.account.name)
    messages.success(request, f"You no longer belong to {place.account}.")
    return redirect("dashboard")


def answer(request: HttpRequest, place: Place, member_id: int, role: Role | None) -> HttpResponse:
    """Give a member a role, or none, and tell how it went. Raises Http404 for somebody who is no member."""
    try:
        found = (
            members.change_role(place.account, member_id, role)
            if role
            else members.remove(place.account, member_id)
        )
    except LastOwner:
        messages.error(request, LAST_OWNER)
        return redirect("people", place.account.name)
    if found is None:
        raise Http404
    told = f"is now {role.label.lower()}" if role else "no longer belongs to this account"
    messages.success(request, f"{found.user.email or found.user.get_username()} {told}.")
    return redirect("people", place.account.name)


@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Show an invitation to whoever has its link; accept it for somebody who is logged in."""
    found = invitations.find(token)
    if found is None:
        return render(request, "account/invitation_closed.html", status=404)
    if request.method != "POST":
        invited.remember(request, found)
        context = {"owner": invitations.owner_address(found), "membership": own(request, found)}
        return render(request, "account/invitation.html", {"invitation": found, **context})
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    try:
        membership = invitations.accept(found, request.user)
    except invitations.NotOpen:
        return render(request, "account/invitation_closed.html", status=404)
    invited.forget(request)
    messages.success(request, f"You are {membership.get_role_display().lower()} of {found.account} now.")
    return redirect("overview", found.account.name)


def own(request: HttpRequest, found: Invitation) -> Membership | None:
    """Return the visitor's place in the account that they are invited to, if they have one."""
    if not request.user.is_authenticated:
        return None
    return Membership.objects.filter(user=request.user, account=found.account).first()
