"""Members and invitations: what holds whoever asks, and when two ask at once."""

from contextlib import suppress
from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.utils import timezone

from billing.models import Account
from clients import invitations, members
from clients.audit import SYSTEM, Action
from clients.invitations import NotOpen, Refused, UnverifiedAddress
from clients.members import LastOwner, Role
from clients.models import AuditEvent, Invitation, Membership
from tests.concurrency import at_once
from tests.factories import actor_of, make_account, make_invitation, make_member

pytestmark = pytest.mark.django_db


def roles(account: Account) -> list[str]:
    """Return the roles of an account's members, sorted."""
    return sorted(Membership.objects.filter(account=account).values_list("role", flat=True))


def test_the_last_owner_stays() -> None:
    owner = make_member()
    make_member(owner.account, role="member")
    with pytest.raises(LastOwner):
        members.remove(owner.account, owner.pk, by=SYSTEM, revoke_keys=False)
    with pytest.raises(LastOwner):
        members.change_role(owner.account, owner.pk, Role.VIEWER, by=SYSTEM)
    assert roles(owner.account) == ["member", "owner"]


def test_an_owner_who_cannot_log_in_is_none() -> None:
    owner = make_member()
    other = make_member(owner.account)
    other.user.is_active = False
    other.user.save()
    with pytest.raises(LastOwner):
        members.remove(owner.account, owner.pk, by=SYSTEM, revoke_keys=False)


def test_a_second_owner_lets_the_first_go() -> None:
    owner = make_member()
    other = make_member(owner.account)
    assert members.change_role(owner.account, other.pk, Role.MEMBER, by=SYSTEM)
    assert members.change_role(owner.account, other.pk, Role.OWNER, by=SYSTEM)
    assert members.remove(owner.account, owner.pk, by=SYSTEM, revoke_keys=False)
    assert roles(owner.account) == ["owner"]
    assert members.remove(owner.account, owner.pk, by=SYSTEM, revoke_keys=False) is None


@pytest.mark.django_db(transaction=True)
def test_of_two_owners_who_leave_at_once_one_stays() -> None:
    for _ in range(5):
        owner = make_member()
        leaving = [owner.pk, make_member(owner.account).pk]

        def leave() -> None:
            with suppress(LastOwner):
                members.remove(owner.account, leaving.pop(), by=SYSTEM, revoke_keys=False)  # noqa: B023 - called before the next round

        at_once(2, leave)
        assert roles(owner.account) == ["owner"]


def test_owners_come_first() -> None:
    account = make_account()
    for role in ("viewer", "owner", "member"):
        make_member(account, role=role)
    assert [one.role for one in members.members_of(account)] == ["owner", "member", "viewer"]


def test_an_invitation_serves_once() -> None:
    made, token = make_invitation()
    assert token not in str(vars(made))
    first, second = make_member().user, make_member().user
    found = invitations.find(token)
    assert found is not None
    assert invitations.accept(found, first, by=SYSTEM).role == "member"
    assert invitations.find(token) is None
    with pytest.raises(NotOpen):
        invitations.accept(found, second, by=SYSTEM)


@pytest.mark.parametrize("change", ["revoked", "expired"])
def test_what_is_not_open_is_not_accepted(change: str) -> None:
    made, token = make_invitation()
    if change == "revoked":
        invitations.revoke(made.account, made.pk, by=SYSTEM)
    else:
        Invitation.objects.filter(pk=made.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert invitations.find(token) is None
    with pytest.raises(NotOpen):
        invitations.accept(made, make_member().user, by=SYSTEM)


def test_a_member_who_accepts_keeps_the_role() -> None:
    owner = make_member()
    made, _ = make_invitation(owner.account, role=Role.VIEWER)
    assert invitations.accept(made, owner.user, by=SYSTEM).role == "owner"
    assert not AuditEvent.objects.filter(action=Action.MEMBER_JOINED).exists()


def test_an_address_is_invited_once_at_a_time() -> None:
    made, _ = make_invitation(email="jane@example.org")
    with pytest.raises(Refused, match="already"):
        make_invitation(made.account, email="Jane@example.org")
    Invitation.objects.filter(pk=made.pk).update(expires_at=timezone.now())
    make_invitation(made.account, email="jane@example.org")
    assert Invitation.objects.filter(account=made.account, closed_at=None).count() == 1


def test_members_are_not_invited() -> None:
    owner = make_member()
    with pytest.raises(Refused, match="belongs"):
        make_invitation(owner.account, email=owner.user.email)


@pytest.mark.parametrize("has_address", [True, False], ids=["unverified", "none"])
def test_who_has_no_verified_address_does_not_invite(*, has_address: bool) -> None:
    owner = make_member(is_verified=False)
    if not has_address:
        EmailAddress.objects.all().delete()
    with pytest.raises(UnverifiedAddress, match="verified email address"):
        invitations.invite(owner.account, email="a@example.org", role=Role.MEMBER, by=actor_of(owner))
    assert not Invitation.objects.exists()


def test_an_invitation_names_who_made_it_before_other_owners() -> None:
    older = make_member()
    owner = make_member(older.account)
    made, _ = invitations.invite(owner.account, email="a@example.org", role=Role.MEMBER, by=actor_of(owner))
    assert invitations.owner_address(made) == owner.user.email
    members.change_role(owner.account, owner.pk, Role.VIEWER, by=SYSTEM)
    assert invitations.owner_address(made) == older.user.email
    owner.user.delete()
    assert invitations.owner_address(Invitation.objects.get()) == older.user.email


@pytest.mark.parametrize("change", ["unverified", "inactive"])
def test_an_invitation_names_no_unproved_owner(change: str) -> None:
    owner = make_member()
    made, _ = invitations.invite(owner.account, email="a@example.org", role=Role.MEMBER, by=actor_of(owner))
    if change == "unverified":
        EmailAddress.objects.update(verified=False)
    else:
        User.objects.update(is_active=False)
    assert invitations.owner_address(made) == ""


def test_an_account_has_room_for_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invitations, "MOST_PEOPLE", 2)
    made, _ = make_invitation()
    with pytest.raises(Refused, match="at most 2"):
        invitations.invite(made.account, email="a@example.org", role=Role.MEMBER, by=actor_of(make_member()))


def test_an_account_makes_so_many_invitations_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invitations, "MOST_PEOPLE", 3)
    owner = make_member()
    for number in range(3):
        address = f"{number}@example.org"
        made, _ = invitations.invite(owner.account, email=address, role=Role.MEMBER, by=actor_of(owner))
        invitations.revoke(owner.account, made.pk, by=SYSTEM)
    with pytest.raises(Refused, match="a day"):
        invitations.invite(owner.account, email="a@example.org", role=Role.MEMBER, by=actor_of(owner))


@pytest.mark.django_db(transaction=True)
def test_of_many_who_accept_at_once_one_gets_the_place() -> None:
    made, _ = make_invitation()
    guests = [make_member().user for _ in range(4)]

    def accept() -> None:
        with suppress(NotOpen):
            invitations.accept(made, guests.pop(), by=SYSTEM)

    at_once(4, accept)
    assert roles(made.account) == ["member", "owner"]
