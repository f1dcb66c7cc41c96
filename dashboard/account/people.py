"""Members and invitations of an account, and the page for accepting an invitation."""

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from clients import audit, invitations, keys, members
from clients.errors import InvitationClosed, InvitationRefused, LastOwner
from clients.members import Role
from clients.models import Invitation, Membership
from dashboard.access import AccountAccess, account_page
from dashboard.forms import form_data
from dashboard.login import pending_invitation
from simservice.api.addresses import base_url
from simservice.web import mail

LAST_OWNER = "An account needs at least one owner. Make someone else an owner first."
MAX_SHOWN_KEYS = 50
# In order of permissions, lowest first.
ROLES = [(role.value, role.label) for role in (Role.VIEWER, Role.MEMBER, Role.OWNER)]
WITH_ARTICLE = {Role.VIEWER: "a viewer", Role.MEMBER: "a member", Role.OWNER: "an owner"}


class InviteForm(forms.Form):
    email = forms.EmailField(label="Email address", max_length=254)
    role = forms.ChoiceField(label="Role", choices=ROLES, initial=Role.MEMBER)


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=Role.choices)


@account_page(post=Role.OWNER)
def people(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """List members and open invitations or invite someone."""
    form = InviteForm(form_data(request))
    if form.is_valid():
        try:
            created, token = invitations.invite(access.account, by=access.actor, **form.cleaned_data)
        except InvitationRefused as error:
            form.add_error("email", str(error))
        else:
            return _show_invitation(request, access, created, token)
    context = {
        "section": "people",
        "members": members.members_of(access.account),
        "invitations": invitations.of_account(access.account),
        "roles": ROLES,
        "form": form,
        "may_invite": access.may_manage and bool(members.verified_address(access.user)),
    }
    return render(request, "dashboard/people.html", context)


def _show_invitation(request: HttpRequest, access: AccountAccess, created: Invitation, token: str) -> HttpResponse:
    """Email an invitation, and show its link once to the inviter."""
    link = base_url(request) + reverse("invitation", args=[token])
    context = {"section": "people", "access": access, "invitation": created, "link": link}
    context["owner"] = invitations.owner_address(created)
    subject = f"Invitation to {access.account} at {settings.SERVICE_BRAND}"
    was_sent = mail.send("mail/invitation.txt", to=created.email, subject=subject, context=context)
    return render(request, "dashboard/invited.html", {**context, "was_sent": was_sent})


@account_page(post=Role.OWNER, get=False)
def revoke_invitation(request: HttpRequest, access: AccountAccess, invitation_id: int) -> HttpResponse:
    found = invitations.revoke(access.account, invitation_id, by=access.actor)
    if found is None:
        raise Http404
    messages.success(request, f"Invitation to {found.email} revoked.")
    return redirect("people", access.account.name)


@account_page(post=Role.OWNER, get=False)
def change_role(request: HttpRequest, access: AccountAccess, member_id: int) -> HttpResponse:
    form = RoleForm(request.POST)
    if not form.is_valid():
        raise Http404
    role = Role(form.cleaned_data["role"])
    try:
        found = members.change_role(access.account, member_id, role, by=access.actor)
    except LastOwner:
        messages.error(request, LAST_OWNER)
        return redirect("people", access.account.name)
    if found is None:
        raise Http404
    messages.success(request, f"{audit.name_of(found.user)} is now {WITH_ARTICLE[role]}.{_read_only_keys(found)}")
    return redirect("people", access.account.name)


def _read_only_keys(member: Membership) -> str:
    """Return a sentence about the active keys of a new viewer, or an empty string."""
    active = keys.active_keys_of(member.user, member.account)
    if member.role != Role.VIEWER or not (count := active.count()):
        return ""
    names = ", ".join(str(key) for key in active[:MAX_SHOWN_KEYS])
    shown = names if count <= MAX_SHOWN_KEYS else f"{names} and {count - MAX_SHOWN_KEYS} others"
    return f" The keys that they created are now read-only: {shown}."


@account_page(read=Role.OWNER, post=Role.OWNER)
def remove(request: HttpRequest, access: AccountAccess, member_id: int) -> HttpResponse:
    """Ask for confirmation, then remove a member."""
    found = get_object_or_404(members.members_of(access.account), pk=member_id)
    done = f"{audit.name_of(found.user)} was removed from this account."
    return _remove_after_confirmation(
        request, access, found, done=done, then=reverse("people", args=[access.account.name])
    )


@account_page(post=Role.VIEWER)
def leave(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """Ask for confirmation, then end the user's own membership."""
    done = f"You left the account {access.account}."
    return _remove_after_confirmation(request, access, access.membership, done=done, then=reverse("dashboard"))


def _remove_after_confirmation(
    request: HttpRequest, access: AccountAccess, leaving: Membership, *, done: str, then: str
) -> HttpResponse:
    """Show the active keys of a member; on POST, remove the member. Raises Http404."""
    if request.method != "POST":
        active = keys.active_keys_of(leaving.user, access.account)
        context = {
            "section": "people",
            "leaving": leaving,
            "who": audit.name_of(leaving.user),
            "is_self": leaving.user == access.user,
            "is_only_owner": members.is_only_owner(leaving),
            "count": active.count(),
            "keys": active[:MAX_SHOWN_KEYS],
        }
        return render(request, "dashboard/remove_member.html", context)
    try:
        found = members.remove(
            access.account, leaving.pk, by=access.actor, revoke_keys="revoke_keys" in request.POST
        )
    except LastOwner:
        messages.error(request, LAST_OWNER)
        return redirect("people", access.account.name)
    if found is None:
        raise Http404
    messages.success(request, done)
    return redirect(then)


@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Show an invitation to anyone with its link; on POST, accept it for the logged-in user."""
    found = invitations.find(token)
    if found is None:
        return render(request, "account/invitation_closed.html", status=404)
    if request.method != "POST":
        pending_invitation.remember(request, found)
        user_id = request.user.pk if request.user.is_authenticated else None
        context = {
            "invitation": found,
            "owner": invitations.owner_address(found),
            "membership": Membership.objects.filter(user=user_id, account=found.account).first()
            if user_id
            else None,
        }
        return render(request, "account/invitation.html", context)
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    try:
        membership = invitations.accept(found, request.user, by=audit.member(request.user, request))
    except InvitationClosed:
        return render(request, "account/invitation_closed.html", status=404)
    pending_invitation.forget(request)
    messages.success(request, f"You are now {WITH_ARTICLE[Role(membership.role)]} of {found.account}.")
    return redirect("overview", found.account.name)
