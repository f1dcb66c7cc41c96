"""Deletion of users by themselves and by operators."""

from datetime import timedelta
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.test import override_settings
from django.utils import timezone

from billing import ledger
from clients.accounts import open_own_account
from clients.audit import SYSTEM
from clients.models import ApiKey, AuditEvent, Invitation, Membership, UsedMailbox
from privacy import accounts, exports, tasks, users
from privacy.errors import ExportPending, OnlyOwner, StaffUser
from privacy.models import Export
from tests.dashboard.browsing import text_of
from tests.dashboard.signing_in import PASSWORD, confirm_identity, log_in
from tests.factories import actor_of, make_account, make_invitation, make_key, make_member

pytestmark = pytest.mark.django_db


@pytest.fixture
def member() -> Membership:
    """A member with a password in an account with another owner."""
    owner = make_member(make_account())
    joined = make_member(owner.account, role="member")
    joined.user.set_password(PASSWORD)
    joined.user.save()
    return joined


def test_a_user_deletes_their_login(member: Membership, client: Any) -> None:
    log_in(client, member.user.email)
    assert client.get("/accounts/delete/").headers["Location"].startswith("/accounts/reauthenticate/?next=")
    confirm_identity(client)
    assert "Enter " in text_of(client.post("/accounts/delete/", {"name": "me"}))
    assert client.post("/accounts/delete/", {"name": member.user.email}).headers["Location"] == "/"
    assert not User.objects.filter(pk=member.user.pk).exists()
    assert client.get("/accounts/profile/").status_code == 302


def test_everything_of_a_user_is_removed(member: Membership, client: Any) -> None:
    log_in(client, member.user.email)
    client.get("/accounts/profile/")
    key, _ = make_key(member.account, by=actor_of(member))
    exports.request_user_export(member.user)
    exports.build_waiting()
    name = Export.objects.get().file_name
    users.delete(member.user, by=SYSTEM)
    for model in (Export, UserSession, Session):
        assert not model._default_manager.exists()
    assert not EmailAddress.objects.filter(email=member.user.email).exists()
    assert not default_storage.exists(name)
    assert ApiKey.objects.get(pk=key.pk).created_by is None
    assert AuditEvent.objects.filter(action="member.removed").count() == 1


def test_the_only_owner_cannot_be_deleted(member: Membership, client: Any) -> None:
    Membership.objects.filter(account=member.account).exclude(pk=member.pk).delete()
    Membership.objects.filter(pk=member.pk).update(role="owner")
    with pytest.raises(OnlyOwner, match=member.account.name):
        users.delete(member.user, by=SYSTEM)
    log_in(client, member.user.email)
    confirm_identity(client)
    page = text_of(client.post("/accounts/delete/", {"name": member.user.email}))
    assert f"You are the only owner of {member.account}." in page
    with pytest.raises(CommandError, match="only owner"):
        call_command("deleteuser", member.user.email)
    accounts.request(member.account, by=SYSTEM)
    users.delete(member.user, by=SYSTEM)


def test_a_new_user_with_a_former_address_gets_no_credits(member: Membership) -> None:
    Membership.objects.filter(pk=member.pk).delete()
    first = open_own_account(member.user)
    accounts.request(first, by=SYSTEM)
    users.delete(member.user, by=SYSTEM)
    key = settings.SECRET_KEY
    with override_settings(SECRET_KEY="another", SECRET_KEY_FALLBACKS=[key]):
        again = User.objects.create_user("again", email=member.user.email.upper())
        assert ledger.available(open_own_account(again)) == 0
    other = User.objects.create_user("other", email="other@example.org")
    assert ledger.available(open_own_account(other)) == ledger.available(first) > 0
    assert member.user.email not in str(UsedMailbox.objects.values())


def test_operators_cannot_delete_their_own_login(member: Membership, client: Any) -> None:
    User.objects.filter(pk=member.user.pk).update(is_staff=True)
    with pytest.raises(StaffUser):
        users.delete(member.user, by=actor_of(member))
    log_in(client, member.user.email)
    confirm_identity(client)
    page = text_of(client.post("/accounts/delete/", {"name": member.user.email}))
    assert "Ask another operator to remove your staff status first." in page


def test_a_repeated_deletion_does_nothing(member: Membership) -> None:
    again = User.objects.get(pk=member.user.pk)
    users.delete(member.user, by=SYSTEM)
    users.delete(again, by=SYSTEM)
    assert AuditEvent.objects.filter(action="member.removed").count() == 1


def test_an_export_in_progress_delays_the_deletion(member: Membership) -> None:
    exports.request_user_export(member.user)
    exports._claim()
    with pytest.raises(ExportPending):
        users.delete(member.user, by=SYSTEM)
    assert User.objects.filter(pk=member.user.pk).exists()


def test_accepted_invitations_are_removed(member: Membership) -> None:
    fields: dict[str, Any] = {"account": member.account, "role": "member", "expires_at": "2030-01-01T00:00Z"}
    fields |= {"closed_at": "2026-01-01T00:00Z"}
    Invitation.objects.create(email=member.user.email, sha256="a", **fields)
    Invitation.objects.create(email="x@example.org", sha256="b", accepted_by=member.user, **fields)
    Invitation.objects.create(email="other@example.org", sha256="c", **fields)
    users.delete(member.user, by=SYSTEM)
    assert Invitation.objects.get().sha256 == "c"


def test_expired_invitations_are_removed(member: Membership) -> None:
    new, _ = make_invitation(member.account)
    old, _ = make_invitation(member.account)
    joined, _ = make_invitation(member.account)
    Invitation.objects.filter(pk__in=[old.pk, joined.pk]).update(expires_at=timezone.now() - timedelta(days=31))
    Invitation.objects.filter(pk=joined.pk).update(closed_at=timezone.now(), accepted_by=member.user)
    tasks.delete_data()
    assert set(Invitation.objects.values_list("pk", flat=True)) == {new.pk, joined.pk}


def test_the_command_deletes_a_user(member: Membership, capsys: Any) -> None:
    call_command("deleteuser", member.user.email)
    assert f"Deleted {member.user.email}." in capsys.readouterr().out
    with pytest.raises(CommandError, match="no user"):
        call_command("deleteuser", member.user.email)
