"""Invitations to an account: links with a one-time token, stored only as a hash."""

import hashlib
from datetime import timedelta

from allauth.account.models import EmailAddress
from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Case, QuerySet, When
from django.db.models.functions import Now

from billing.models import Account
from clients import audit, members
from clients.audit import Action, Actor
from clients.errors import InvitationClosed, InvitationRefused, UnverifiedInviter
from clients.models import Invitation, Membership
from simservice.clocks import database_time
from simservice.ids import new_token

MAX_PEOPLE = 200
# Until then, owners see who has not accepted.
KEPT_AFTER_EXPIRY = timedelta(days=30)


def invite(account: Account, *, email: str, role: Membership.Role, by: Actor) -> tuple[Invitation, str]:
    """Create an invitation; return it with its token, which is not stored.

    Closes an expired invitation to the same address. Raises InvitationRefused, or its subclass UnverifiedInviter if
    `by` has no verified email address.
    """
    if by.user is None or not members.verified_address(by.user):
        raise UnverifiedInviter("You need a verified email address to invite people.")
    if Membership.objects.filter(account=account, user__email__iexact=email).exists():
        raise InvitationRefused("A member of this account already has this address.")
    now, token = database_time(), new_token()
    expired = Invitation.objects.filter(account=account, email__iexact=email, closed_at=None, expires_at__lte=now)
    try:
        with transaction.atomic():
            Account.objects.select_for_update(no_key=True).get(pk=account.pk)
            _require_room(account)
            expired.update(closed_at=now)
            invitation = Invitation.objects.create(
                account=account,
                email=email,
                role=role,
                sha256=_digest(token),
                invited_by=by.user,
                expires_at=now + timedelta(days=settings.INVITATION_DAYS),
            )
            _record(Action.INVITATION_CREATED, invitation, by=by, role=role)
    except IntegrityError:
        message = "This address is already invited. To get a new link, revoke the open invitation first."
        raise InvitationRefused(message) from None
    return invitation, token


def _require_room(account: Account) -> None:
    """Raise InvitationRefused if the account has MAX_PEOPLE members and invitations, or sent as many today.

    The daily limit keeps an account from sending bulk mail. The account must be locked.
    """
    people = Membership.objects.filter(account=account).count() + of_account(account).count()
    if people >= MAX_PEOPLE:
        raise InvitationRefused(f"An account can have at most {MAX_PEOPLE} members and open invitations.")
    since = Now() - timedelta(days=1)
    if Invitation.objects.filter(account=account, created_at__gt=since).count() >= MAX_PEOPLE:
        raise InvitationRefused(f"An account can send at most {MAX_PEOPLE} invitations a day.")


def _digest(token: str) -> str:
    """Return the hash that identifies an invitation in the database. A random token needs no salt."""
    return hashlib.sha256(token.encode()).hexdigest()


def open_invitations() -> QuerySet[Invitation]:
    """Return the invitations that can still be accepted."""
    return Invitation.objects.filter(closed_at=None, expires_at__gt=Now())


def find(token: str) -> Invitation | None:
    """Return the open invitation with this token and its account, or None."""
    return open_invitations().select_related("account", "invited_by").filter(sha256=_digest(token)).first()


def owner_address(invitation: Invitation) -> str:
    """Return a verified email address of an owner of the account, or "".

    Prefers the owner who created the invitation.
    """
    owners = EmailAddress.objects.filter(
        verified=True,
        user__is_active=True,
        user__memberships__account=invitation.account_id,
        user__memberships__role=Membership.Role.OWNER,
    )
    inviter_first = Case(When(user=invitation.invited_by_id, then=0), default=1)
    return owners.order_by(inviter_first, "-primary", "pk").values_list("email", flat=True).first() or ""


def of_account(account: Account) -> QuerySet[Invitation]:
    """Return an account's unanswered invitations, newest first, including expired ones."""
    return Invitation.objects.filter(account=account, closed_at=None).order_by("-pk")


@transaction.atomic
def revoke(account: Account, invitation_id: int, *, by: Actor) -> Invitation | None:
    """Revoke an invitation of an account and return it; return None if there is no such invitation. Idempotent."""
    invitation = Invitation.objects.filter(account=account, pk=invitation_id).first()
    if invitation and Invitation.objects.filter(pk=invitation.pk, closed_at=None).update(closed_at=Now()):
        _record(Action.INVITATION_REVOKED, invitation, by=by)
    return invitation


def _record(action: Action, invitation: Invitation, *, by: Actor, **details: str) -> None:
    audit.record(invitation.account_id, action, by=by, target_id=invitation.pk, target=invitation.email, **details)


def delete_expired() -> int:
    """Delete invitations that nobody accepted, a while after they expire. Return how many."""
    expired = Invitation.objects.filter(accepted_by=None, expires_at__lt=Now() - KEPT_AFTER_EXPIRY)
    return expired.delete()[0]


@transaction.atomic
def accept(invitation: Invitation, user: User, *, by: Actor) -> Membership:
    """Make a user a member of the account; an existing member keeps their role. Raises InvitationClosed.

    Locks the account before the invitation, like every other change of members.
    """
    Account.objects.select_for_update(no_key=True).get(pk=invitation.account_id)
    was_open = open_invitations().filter(pk=invitation.pk).update(closed_at=Now(), accepted_by=user)
    if not was_open:
        raise InvitationClosed
    membership, is_new = Membership.objects.get_or_create(
        user=user, account_id=invitation.account_id, defaults={"role": invitation.role}
    )
    if is_new:
        members.record_change(Action.MEMBER_JOINED, membership, by=by, role=membership.role)
    return membership
