"""Inviting people into an account: a link with a one-time token, of which only the hash is kept."""

import hashlib
from datetime import timedelta

from allauth.account.models import EmailAddress
from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Case, QuerySet, When
from django.utils import timezone

from billing.models import Account
from clients import audit, members
from clients.audit import Action, Actor
from clients.models import Invitation, Membership
from simservice.ids import new_token

MOST_PEOPLE = 200


class Refused(Exception):
    """Nobody is invited this way; the message is a sentence for whoever tried."""


class UnverifiedAddress(Refused):
    """The inviter has no verified email address, so the invited person could not know who sent the invitation."""


class NotOpen(Exception):
    """The invitation was accepted, revoked or replaced, or has expired."""


def invite(account: Account, *, email: str, role: Membership.Role, by: Actor) -> tuple[Invitation, str]:
    """Create an invitation; return it and its token, which cannot be read again.

    Closes an expired invitation of the same address. Raises Refused, and UnverifiedAddress if `by` has no verified
    email address.
    """
    if by.user is None or not members.verified_address(by.user):
        raise UnverifiedAddress("You need a verified email address to invite people.")
    require_room(account)
    if Membership.objects.filter(account=account, user__email__iexact=email).exists():
        raise Refused("Somebody with this address belongs to the account already.")
    now, token = timezone.now(), new_token()
    expired = Invitation.objects.filter(account=account, email__iexact=email, closed_at=None, expires_at__lte=now)
    try:
        with transaction.atomic():
            expired.update(closed_at=now)
            made = Invitation.objects.create(
                account=account,
                email=email,
                role=role,
                sha256=digest(token),
                invited_by=by.user,
                expires_at=now + timedelta(days=settings.INVITATION_DAYS),
            )
            record(Action.INVITATION_CREATED, made, by=by, role=role)
    except IntegrityError:
        raise Refused("This address is invited already. For a new link, revoke that invitation first.") from None
    return made, token


def require_room(account: Account) -> None:
    """Raise Refused when an account has as many people and open invitations as a page can show.

    It also makes no more invitations than that in a day, since each is a mail to anybody.
    """
    people = Membership.objects.filter(account=account).count() + of_account(account).count()
    if people >= MOST_PEOPLE:
        raise Refused(f"An account has at most {MOST_PEOPLE} people and invitations.")
    since = timezone.now() - timedelta(days=1)
    if Invitation.objects.filter(account=account, created_at__gt=since).count() >= MOST_PEOPLE:
        raise Refused(f"An account makes at most {MOST_PEOPLE} invitations a day.")


def digest(token: str) -> str:
    """Return the hash an invitation is kept and found by. The token is random enough to need no salt."""
    return hashlib.sha256(token.encode()).hexdigest()


def open_invitations() -> QuerySet[Invitation]:
    """Return the invitations that can still be accepted."""
    return Invitation.objects.filter(closed_at=None, expires_at__gt=timezone.now())


def find(token: str) -> Invitation | None:
    """Return the open invitation of a link with its account, None when there is none."""
    return open_invitations().select_related("account", "invited_by").filter(sha256=digest(token)).first()


def owner_address(invitation: Invitation) -> str:
    """Return a verified address of one of the account's owners, "" if there is none. One query.

    The owner who made the invitation comes first.
    """
    owners = EmailAddress.objects.filter(
        verified=True,
        user__is_active=True,
        user__memberships__account=invitation.account_id,
        user__memberships__role=Membership.Role.OWNER,
    )
    made_it_first = Case(When(user=invitation.invited_by_id, then=0), default=1)
    return owners.order_by(made_it_first, "-primary", "pk").values_list("email", flat=True).first() or ""


def of_account(account: Account) -> QuerySet[Invitation]:
    """Return an account's unanswered invitations, also those that have expired, newest first."""
    return Invitation.objects.filter(account=account, closed_at=None).order_by("-pk")


@transaction.atomic
def revoke(account: Account, invitation_id: int, *, by: Actor) -> Invitation | None:
    """Close an invitation of an account; None when the account has no such one. Again does no harm."""
    found = Invitation.objects.filter(account=account, pk=invitation_id).first()
    if found and Invitation.objects.filter(pk=found.pk, closed_at=None).update(closed_at=timezone.now()):
        record(Action.INVITATION_REVOKED, found, by=by)
    return found


def record(action: Action, invitation: Invitation, *, by: Actor, **details: str) -> None:
    """Write an event about an invitation."""
    audit.record(invitation.account_id, action, by=by, target_id=invitation.pk, target=invitation.email, **details)


@transaction.atomic
def accept(invitation: Invitation, user: User, *, by: Actor) -> Membership:
    """Give a user the offered place; whoever has one in the account already keeps it as it is. Raises NotOpen.

    The account is locked before the invitation, as for every other change of members.
    """
    Account.objects.select_for_update(no_key=True).get(pk=invitation.account_id)
    taken = open_invitations().filter(pk=invitation.pk).update(closed_at=timezone.now(), accepted_by=user)
    if not taken:
        raise NotOpen
    found, is_new = Membership.objects.get_or_create(
        user=user, account_id=invitation.account_id, defaults={"role": invitation.role}
    )
    if is_new:
        members.record(Action.MEMBER_JOINED, found, by=by, role=found.role)
    return found
