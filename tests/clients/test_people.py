"""Rules for members and invitations, also under concurrent requests."""

from contextlib import suppress
from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.utils import timezone

from billing.models import Account
from clients import invitations, members
from clients.audit import SYSTEM, Action
from clients.errors import InvitationClosed, InvitationRefused, LastOwner, UnverifiedInviter
from clients.members import Role
from clients.models import AuditEvent, Invitation, Membership
from tests.concurrency import at_once
from tests.factories import actor_of, make_account, make_invitation, make_member

pytestmark = pytest.mark.django_db


def roles(account: Account) -> list[str]:
    """Return the roles of an account's members, sorted."""
    return sorted(Membership.objects.filter(account=account).values_list("role", flat=True))


def test_the_last_owner_cannot_be_removed() -> None:
    owner = make_member()
    make_member(owner.account, role="member")
    with pytest.raises(LastOwner):
        members.remove(owner.account, owner.pk, by=SYSTEM, revoke_keys=False)
    with pytest.raises(LastOwner):
        members.change_role(owner.account, owner.pk, Role.VIEWER, by=SYSTEM)
    assert roles(owner.account) == ["member", "owner"]


def test_an_inactive_owner_does_not_count() -> None:
    owner = make_member()
    other = make_member(owner.account)
    other.user.is_active = False
    other.user.save()
    with pytest.raises(LastOwner):
        members.remove(owner.account, owner.pk, by=SYSTEM, revoke_keys=False)


def test_an_owner_can_be_removed_if_another_remains() -> None:
    owner = make_member()
    other = make_member(owner.account)
    assert members.change_role(owner.account, other.pk, Role.MEMBER, by=SYSTEM)
    assert members.change_role(owner.account, other.pk, Role.OWNER, by=SYSTEM)
    assert members.remove(owner.account, owner.pk, by=SYSTEM, revoke_keys=False)
    assert roles(owner.account) == ["owner"]
    assert members.remove(owner.account, owner.pk, by=SYSTEM, revoke_keys=False) is None


@pytest.mark.django_db(transaction=True)
def test_one_of_two_owners_leaving_at_once_stays() -> None:
    for _ in range(5):
        owner = make_member()
        leaving = [owner.pk, make_member(owner.account).pk]

        def leave() -> None:
            with suppress(LastOwner):
                members.remove(owner.account, leaving.pop(), by=SYSTEM, revoke_keys=False)  # noqa: B023 - called before the next round

        at_once(2, leave)
        assert roles(owner.account) == ["owner"]


def test_owners_are_listed_first() -> None:
    account = make_account()
    for role in ("viewer", "owner", "member"):
        make_member(account, role=role)
    assert [member.role for member in members.members_of(account)] == ["owner", "member", "viewer"]


def test_an_invitation_can_be_accepted_once() -> None:
    invitation, token = make_invitation()
    assert token not in str(vars(invitation))
    first, second = make_member().user, make_member().user
    open_invitation = invitations.find(token)
    assert open_invitation is not None
    assert invitations.accept(open_invitation, first, by=SYSTEM).role == "member"
    assert invitations.find(token) is None
    with pytest.raises(InvitationClosed):
        invitations.accept(open_invitation, second, by=SYSTEM)


@pytest.mark.parametrize("change", ["revoked", "expired"])
def test_a_revoked_or_expired_invitation_is_rejected(change: str) -> None:
    invitation, token = make_invitation()
    if change == "revoked":
        invitations.revoke(invitation.account, invitation.pk, by=SYSTEM)
    else:
        Invitation.objects.filter(pk=invitation.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert invitations.find(token) is None
    with pytest.raises(InvitationClosed):
        invitations.accept(invitation, make_member().user, by=SYSTEM)


def test_a_member_who_accepts_keeps_their_role() -> None:
    owner = make_member()
    invitation, _ = make_invitation(owner.account, role=Role.VIEWER)
    assert invitations.accept(invitation, owner.user, by=SYSTEM).role == "owner"
    assert not AuditEvent.objects.filter(action=Action.MEMBER_JOINED).exists()


def test_an_address_has_one_open_invitation() -> None:
    invitation, _ = make_invitation(email="jane@example.org")
    with pytest.raises(InvitationRefused, match="already invited"):
        make_invitation(invitation.account, email="Jane@example.org")
    Invitation.objects.filter(pk=invitation.pk).update(expires_at=timezone.now())
    make_invitation(invitation.account, email="jane@example.org")
    assert Invitation.objects.filter(account=invitation.account, closed_at=None).count() == 1


def test_members_cannot_be_invited_again() -> None:
    owner = make_member()
    with pytest.raises(InvitationRefused, match="already has this address"):
        make_invitation(owner.account, email=owner.user.email)


@pytest.mark.parametrize("has_address", [True, False], ids=["unverified", "none"])
def test_inviting_requires_a_verified_address(*, has_address: bool) -> None:
    owner = make_member(is_verified=False)
    if not has_address:
        EmailAddress.objects.all().delete()
    with pytest.raises(UnverifiedInviter, match="verified email address"):
        invitations.invite(owner.account, email="a@example.org", role=Role.MEMBER, by=actor_of(owner))
    assert not Invitation.objects.exists()


def test_an_invitation_names_its_inviter_before_other_owners() -> None:
    older = make_member()
    owner = make_member(older.account)
    invitation, _ = invitations.invite(owner.account, email="a@example.org", role=Role.MEMBER, by=actor_of(owner))
    assert invitations.owner_address(invitation) == owner.user.email
    members.change_role(owner.account, owner.pk, Role.VIEWER, by=SYSTEM)
    assert invitations.owner_address(invitation) == older.user.email
    owner.user.delete()
    assert invitations.owner_address(Invitation.objects.get()) == older.user.email


@pytest.mark.parametrize("change", ["unverified", "inactive"])
def test_an_invitation_names_no_unverified_or_inactive_owner(change: str) -> None:
    owner = make_member()
    invitation, _ = invitations.invite(owner.account, email="a@example.org", role=Role.MEMBER, by=actor_of(owner))
    if change == "unverified":
        EmailAddress.objects.update(verified=False)
    else:
        User.objects.update(is_active=False)
    assert invitations.owner_address(invitation) == ""


def test_the_number_of_people_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invitations, "MAX_PEOPLE", 2)
    invitation, _ = make_invitation()
    with pytest.raises(InvitationRefused, match="at most 2"):
        invitations.invite(invitation.account, email="a@example.org", role=Role.MEMBER, by=actor_of(make_member()))


def test_the_number_of_invitations_per_day_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invitations, "MAX_PEOPLE", 3)
    owner = make_member()
    for number in range(3):
        address = f"{number}@example.org"
        invitation, _ = invitations.invite(owner.account, email=address, role=Role.MEMBER, by=actor_of(owner))
        invitations.revoke(owner.account, invitation.pk, by=SYSTEM)
    with pytest.raises(InvitationRefused, match="a day"):
        invitations.invite(owner.account, email="a@example.org", role=Role.MEMBER, by=actor_of(owner))


@pytest.mark.django_db(transaction=True)
def test_concurrent_invitations_respect_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invitations, "MAX_PEOPLE", 2)
    owner = make_member()
    addresses = iter([f"{number}@example.org" for number in range(6)])

    def invite() -> None:
        with suppress(InvitationRefused):
            invitations.invite(owner.account, email=next(addresses), role=Role.MEMBER, by=actor_of(owner))

    at_once(6, invite)
    assert invitations.of_account(owner.account).count() == 1


@pytest.mark.django_db(transaction=True)
def test_concurrent_acceptances_add_one_member() -> None:
    invitation, _ = make_invitation()
    guests = [make_member().user for _ in range(4)]

    def accept() -> None:
        with suppress(InvitationClosed):
            invitations.accept(invitation, guests.pop(), by=SYSTEM)

    at_once(4, accept)
    assert roles(invitation.account) == ["member", "owner"]
