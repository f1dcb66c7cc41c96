"""Deletion of a user: `docs/explanation/data-protection.md`. Other accounts keep their audit logs."""

from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Q

from billing.models import Account
from clients import members
from clients.accounts import remember_mailboxes
from clients.audit import Actor
from clients.models import Invitation, Membership
from privacy import exports
from privacy.errors import ExportPending, OnlyOwner, StaffUser


def accounts_owned_alone(user: User) -> list[str]:
    """Return the names of the accounts whose only owner is the user, without those that are being deleted."""
    memberships = Membership.objects.filter(user=user, role=Membership.Role.OWNER, account__deletion=None)
    owned = memberships.select_related("account").order_by("account__name")
    return [membership.account.name for membership in owned if members.is_only_owner(membership)]


def delete(user: User, *, by: Actor) -> None:
    """Delete a user with their sessions, second factors, memberships and exports. Raises OnlyOwner, StaffUser,
    ExportPending if the user requested an export at the same moment, or OSError.

    Keys that the user created stay, because they belong to the accounts. A repeated call finishes an interrupted
    one, and does nothing after a completed one.
    """
    _require_deletable(user, by=by)
    exports.delete(exports.of_user(user))
    with transaction.atomic():
        locked = User.objects.select_for_update().filter(pk=user.pk).first()
        # Members change one at a time, and no export is requested.
        accounts = Account.objects.filter(memberships__user=user).order_by("pk")
        list(accounts.select_for_update(of=("self",), no_key=True).values_list("pk"))
        if locked is None:
            return
        _require_deletable(locked, by=by)
        if exports.of_user(user).exists():
            raise ExportPending
        for membership in Membership.objects.filter(user=user).select_related("user", "account"):
            members.finish_removal(membership, by=by, revoke_keys=False)
        of_user = Q(accepted_by=user) | Q(email__iexact=user.email)
        Invitation.objects.filter(of_user, closed_at__isnull=False).delete()
        sessions = UserSession.objects.filter(user=user)
        remember_mailboxes(user)
        Session.objects.filter(session_key__in=list(sessions.values_list("session_key", flat=True))).delete()
        user.delete()


def _require_deletable(user: User, *, by: Actor) -> None:
    """Raise OnlyOwner or StaffUser."""
    if names := accounts_owned_alone(user):
        raise OnlyOwner(names)
    if user.is_staff and by.user == user:
        raise StaffUser
