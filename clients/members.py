"""Members of an account and their roles. An account always keeps an owner who can log in."""

from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Case, QuerySet, When

from billing.models import Account
from clients import audit, keys
from clients.audit import Action, Actor
from clients.errors import LastOwner
from clients.models import Membership

Role = Membership.Role
MAX_LISTED = 50
# A role has all permissions of the lower ranks.
RANKS = {Role.VIEWER: 0, Role.MEMBER: 1, Role.OWNER: 2}


def ranks_at_least(role: str, least: Role) -> bool:
    """Return whether `role` has the permissions of `least`."""
    return RANKS[Role(role)] >= RANKS[least]


def memberships_of(user: User) -> QuerySet[Membership]:
    """Return a user's memberships, ordered by the accounts' names."""
    return Membership.objects.filter(user=user).select_related("account").order_by("account__name")


def members_of(account: Account) -> QuerySet[Membership]:
    """Return an account's members, owners first."""
    order = Case(*(When(role=role, then=-rank) for role, rank in RANKS.items()))
    return Membership.objects.filter(account=account).select_related("user").order_by(order, "user__email", "pk")


def verified_address(user: User) -> str:
    """Return a user's verified email address, or ""."""
    address = EmailAddress.objects.get_verified(user)
    return address.email if address else ""


@transaction.atomic
def change_role(account: Account, member_id: int, role: Role, *, by: Actor) -> Membership | None:
    """Change a member's role; return None if there is no such member. Raises LastOwner.

    The keys of a viewer can only read (`clients/keys.py`).
    """
    member = _lock_member(account, member_id)
    if member is None:
        return None
    if role != Role.OWNER and is_only_owner(member):
        raise LastOwner
    old, member.role = member.role, role
    member.save(update_fields=["role"])
    if old != role:
        keys_changed = keys.active_keys_of(member.user, account).count() if Role.VIEWER in (old, role) else 0
        record_change(Action.MEMBER_ROLE_CHANGED, member, by=by, old=old, new=role, keys=keys_changed)
    return member


@transaction.atomic
def remove(account: Account, member_id: int, *, by: Actor, revoke_keys: bool) -> Membership | None:
    """Remove a member from an account, and revoke the active keys they created there if `revoke_keys` is set.

    Returns None if there is no such member. Raises LastOwner.
    """
    member = _lock_member(account, member_id)
    if member is None:
        return None
    if is_only_owner(member):
        raise LastOwner
    Membership.objects.filter(pk=member.pk).delete()
    finish_removal(member, by=by, revoke_keys=revoke_keys)
    return member


def finish_removal(member: Membership, *, by: Actor, revoke_keys: bool) -> None:
    """Record that a membership ended, and revoke the active keys of the member if `revoke_keys` is set.

    The keys of a viewer are always revoked: nobody's role would limit them any more.
    """
    record_change(Action.MEMBER_LEFT if by.user == member.user else Action.MEMBER_REMOVED, member, by=by)
    if revoke_keys or member.role == Role.VIEWER:
        keys.revoke_all(keys.active_keys_of(member.user, member.account), by=by)


def record_change(action: Action, member: Membership, *, by: Actor, **details: str | int) -> None:
    """Write an audit event about a member."""
    target = audit.name_of(member.user)
    audit.record(member.account_id, action, by=by, target_id=member.user_id, target=target, **details)


def _lock_member(account: Account, member_id: int) -> Membership | None:
    """Lock the account, so that its members change one at a time, and return the member or None."""
    Account.objects.select_for_update(no_key=True).get(pk=account.pk)
    return Membership.objects.select_related("user").filter(account=account, pk=member_id).first()


def owner_addresses(account: Account) -> list[str]:
    """Return the email addresses of an account's owners who can log in."""
    owners = Membership.objects.filter(account=account, role=Role.OWNER, user__is_active=True).exclude(
        user__email=""
    )
    return list(owners.order_by("pk").values_list("user__email", flat=True))


def is_only_owner(member: Membership) -> bool:
    """Return whether the member is the account's only owner who can log in. Lock the account before a change."""
    owners = Membership.objects.filter(account_id=member.account_id, role=Role.OWNER, user__is_active=True)
    return member.role == Role.OWNER and not owners.exclude(pk=member.pk).exists()
