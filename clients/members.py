"""Who belongs to an account, and what a role may do. An account always keeps an owner who can log in."""

from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Case, QuerySet, When

from billing.models import Account
from clients import audit, keys
from clients.audit import Action, Actor
from clients.models import Membership

Role = Membership.Role
# Each role may do what those before it may.
RANKS = {Role.VIEWER: 0, Role.MEMBER: 1, Role.OWNER: 2}


class LastOwner(Exception):
    """The account would have no owner left."""


def ranks_at_least(role: str, least: Role) -> bool:
    """Tell whether somebody with `role` may do what `least` may."""
    return RANKS[Role(role)] >= RANKS[least]


def memberships_of(user: User) -> QuerySet[Membership]:
    """Return a user's places, by the accounts' names."""
    return Membership.objects.filter(user=user).select_related("account").order_by("account__name")


def members_of(account: Account) -> QuerySet[Membership]:
    """Return an account's people, owners first."""
    order = Case(*(When(role=role, then=-rank) for role, rank in RANKS.items()))
    return Membership.objects.filter(account=account).select_related("user").order_by(order, "user__email", "pk")


def verified_address(user: User) -> str:
    """Return a user's verified email address, "" if there is none. One query."""
    found = EmailAddress.objects.get_verified(user)
    return found.email if found else ""


@transaction.atomic
def change_role(account: Account, member_id: int, role: Role, *, by: Actor) -> Membership | None:
    """Give a member another role; None when there is no such member any more. Raises LastOwner."""
    found = lock_member(account, member_id)
    if found is None:
        return None
    if role != Role.OWNER:
        require_another_owner(found)
    old, found.role = found.role, role
    found.save(update_fields=["role"])
    if old != role:
        record(Action.MEMBER_ROLE_CHANGED, found, by=by, old=old, new=role)
    return found


@transaction.atomic
def remove(account: Account, member_id: int, *, by: Actor, revoke_keys: bool) -> Membership | None:
    """Remove a member from an account; optionally revoke the active keys that they created there.

    None when there is no such member any more. Raises LastOwner.
    """
    found = lock_member(account, member_id)
    if found is None:
        return None
    require_another_owner(found)
    Membership.objects.filter(pk=found.pk).delete()
    record(Action.MEMBER_LEFT if by.user == found.user else Action.MEMBER_REMOVED, found, by=by)
    if revoke_keys:
        keys.revoke_all(keys.active_keys_of(found.user, account), by=by)
    return found


def record(action: Action, member: Membership, *, by: Actor, **details: str) -> None:
    """Write an event about a member."""
    target = audit.name_of(member.user)
    audit.record(member.account_id, action, by=by, target_id=member.user_id, target=target, **details)


def lock_member(account: Account, member_id: int) -> Membership | None:
    """Lock the account, so that its members change one at a time, and return one of them as it is now."""
    Account.objects.select_for_update(no_key=True).get(pk=account.pk)
    return Membership.objects.select_related("user").filter(account=account, pk=member_id).first()


def require_another_owner(leaving: Membership) -> None:
    """Raise LastOwner when the account has no owner who can log in but this one. The account must be locked."""
    if is_only_owner(leaving):
        raise LastOwner


def is_only_owner(member: Membership) -> bool:
    """Return whether nobody else who can log in owns the account."""
    owners = Membership.objects.filter(account_id=member.account_id, role=Role.OWNER, user__is_active=True)
    return member.role == Role.OWNER and not owners.exclude(pk=member.pk).exists()
