"""The audit log: each change and its event are one transaction, and events never change."""

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.test import RequestFactory
from django.utils import timezone
from pytest_django import Settings

from billing.errors import InsufficientCredits
from billing.models import Account, Balance, Entry, Grant, GrantReason
from clients import accounts, audit, credit_notices, invitations, keys, members
from clients.audit import COMMAND_LINE, SYSTEM, Action
from clients.errors import ClientNameTaken, LastOwner, NotAMember
from clients.members import Role
from clients.models import ApiKey, AuditEvent, Client, CreditsNotice, Invitation, Membership
from jobs.enums import Status
from jobs.errors import JobAlreadyEnded
from jobs.lifecycle import cancellation, job_moves
from jobs.models import Job
from jobs.operations import operator_actions
from jobs.queue import pausing
from jobs.results import edits
from simservice.api.addresses import client_address
from simservice.api.scopes import Scope
from tests.concurrency import at_once
from tests.factories import (
    PlanFactory,
    actor_of,
    make_account,
    make_client,
    make_job,
    make_key,
    make_member,
    make_running_job,
)
from tests.waiting import wait_until
from webhooks import endpoints, retries
from webhooks.models import Endpoint

pytestmark = pytest.mark.django_db
URL = "https://hooks.example.com/services/secret-path?token=secret"


@pytest.fixture
def owner() -> Membership:
    return make_member()


def written() -> list[str]:
    """Return the actions of all events, oldest first."""
    return list(AuditEvent.objects.order_by("pk").values_list("action", flat=True))


def test_an_event_records_actor_target_and_address(owner: Membership) -> None:
    request = RequestFactory().post("/", REMOTE_ADDR="203.0.113.9")
    client = make_client(owner.account)
    key, _ = keys.create_key(client, by=audit.member(owner.user, request), name="laptop")
    event = AuditEvent.objects.get()
    assert (event.account, event.user_id, event.actor) == (owner.account, owner.user.pk, owner.user.email)
    assert (event.address, event.target_id, event.target) == ("203.0.113.9", key.pk, str(key))
    assert event.details == {"client": "bot", "name": "laptop"}
    assert timezone.now() - event.at < timedelta(minutes=1)


@pytest.mark.parametrize("change", ["UPDATE clients_auditevent SET actor = 'x'", "DELETE FROM clients_auditevent"])
def test_an_event_cannot_be_changed_or_deleted(change: str, owner: Membership) -> None:
    make_key(owner.account)
    with pytest.raises(IntegrityError, match="never changed"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(change)


def test_events_remain_after_a_user_is_deleted(owner: Membership) -> None:
    guest = make_member(owner.account, role="member")
    keys.create_key(make_client(owner.account), by=actor_of(guest))
    email = guest.user.email
    members.remove(owner.account, guest.pk, by=actor_of(owner), revoke_keys=False)
    User.objects.get(pk=guest.user.pk).delete()
    assert AuditEvent.objects.get(action=Action.KEY_CREATED).actor == email
    assert ApiKey.objects.get().created_by is None


def test_a_failed_change_writes_no_event(owner: Membership) -> None:
    with pytest.raises(LastOwner):
        members.remove(owner.account, owner.pk, by=actor_of(owner), revoke_keys=True)
    with pytest.raises(ClientNameTaken):
        accounts.create_client(owner.account, "default", by=actor_of(owner))
    with pytest.raises(InsufficientCredits):
        accounts.correct_credits(make_account(credits=0), -1, note="x", by=COMMAND_LINE)
    ended_job = make_running_job()
    job_moves.finish(ended_job, job_moves.CANCELLED_LOST)
    assert not operator_actions.release(ended_job, by=COMMAND_LINE)
    assert not operator_actions.requeue(ended_job, by=COMMAND_LINE)
    assert written() == []


class World:
    """An account with one object of each kind that can change."""

    def __init__(self) -> None:
        self.owner = make_member()
        self.account = self.owner.account
        self.guest = make_member(self.account, role="member")
        self.stranger = make_member()
        self.key, _ = make_key(self.account)
        self.client = make_client(self.account)
        endpoints.install(self.client, URL, by=SYSTEM)
        self.new_client = make_client(self.account, "another")
        self.by = actor_of(self.owner)
        self.invitation, _ = invitations.invite(self.account, email="a@example.org", role=Role.MEMBER, by=self.by)
        self.waiting, self.running = make_job(self.client), make_running_job(client=self.client)
        self.plan = PlanFactory.create()

    def change_plan(self) -> None:
        self.account.plan = self.plan
        accounts.save_changes(self.account, by=SYSTEM)

    def stored(self) -> list[object]:
        """Return the rows of all tables that can change."""
        models = (
            Account,
            Balance,
            CreditsNotice,
            Grant,
            Entry,
            Client,
            ApiKey,
            Membership,
            Invitation,
            Endpoint,
            Job,
            AuditEvent,
        )
        return [list(model._default_manager.order_by("pk").values()) for model in models]


CHANGES: dict[str, Callable[[World], object]] = {
    "create key": lambda world: keys.create_key(world.client, by=world.by),
    "rename key": lambda world: keys.rename(world.key, "x", by=world.by),
    "expire key": lambda world: keys.expire(world.key, timezone.now(), by=world.by),
    "change scope of key": lambda world: keys.change_access(world.key, scope=Scope.READ, addresses=[], by=world.by),
    "change addresses of key": lambda world: keys.change_access(
        world.key, scope=Scope.MANAGE, addresses=["192.0.2.0/24"], by=world.by
    ),
    "report low credits": lambda world: endpoints.report_low_credits(world.client, is_wanted=True, by=world.by),
    "change notice": lambda world: credit_notices.set_threshold(world.account, 5, by=world.by),
    "revoke key": lambda world: keys.revoke(world.key, by=world.by),
    "create client": lambda world: accounts.create_client(world.account, "x", by=world.by),
    "change plan": World.change_plan,
    "grant": lambda world: accounts.grant_credits(
        world.account, 5, reason=GrantReason.GRANT_PROMO, note="x", by=world.by
    ),
    "correct": lambda world: accounts.correct_credits(world.account, 5, note="x", by=world.by),
    "change role": lambda world: members.change_role(world.account, world.guest.pk, Role.OWNER, by=world.by),
    "remove": lambda world: members.remove(world.account, world.guest.pk, by=world.by, revoke_keys=True),
    "invite": lambda world: invitations.invite(world.account, email="b@example.org", role=Role.MEMBER, by=world.by),
    "revoke invitation": lambda world: invitations.revoke(world.account, world.invitation.pk, by=world.by),
    "accept": lambda world: invitations.accept(world.invitation, world.stranger.user, by=world.by),
    "enable webhook": lambda world: endpoints.install(world.new_client, URL, by=world.by),
    "change address": lambda world: endpoints.set_url(world.client, f"{URL}x", by=world.by),
    "rotate": lambda world: endpoints.rotate(world.client, by=world.by),
    "disable webhook": lambda world: endpoints.disable(world.client, by=world.by),
    "cancel": lambda world: cancellation.cancel(world.waiting, by=world.by),
    "cancel running": lambda world: cancellation.cancel(world.running, by=world.by),
    "change sharing": lambda world: edits.set_shares_inputs(world.running, shown=False, by=world.by),
    "replace links": lambda world: edits.replace_links(world.running, by=world.by),
    "requeue": lambda world: operator_actions.requeue(world.running, by=world.by),
    "release": lambda world: operator_actions.release(world.running, by=world.by),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_rolled_back_if_its_event_fails(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "check_url", lambda _: None)
    world = World()
    before = world.stored()
    with monkeypatch.context() as patch:
        for name in ("create", "bulk_create"):
            patch.setattr(AuditEvent.objects, name, lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            CHANGES[change](world)
    world.account.refresh_from_db()
    assert world.stored() == before
    CHANGES[change](world)
    assert AuditEvent.objects.count() == len(before[-1]) + 1  # type: ignore[arg-type]


def test_repeated_changes_write_no_event(owner: Membership) -> None:
    key, _ = make_key(owner.account)
    invitation, _ = invitations.invite(owner.account, email="a@example.org", role=Role.MEMBER, by=actor_of(owner))
    for _ in range(2):
        keys.revoke(key, by=SYSTEM)
        invitations.revoke(owner.account, invitation.pk, by=SYSTEM)
        members.change_role(owner.account, owner.pk, Role.OWNER, by=SYSTEM)
        accounts.save_changes(owner.account, by=SYSTEM)
    assert written() == ["key.created", "invitation.created", "key.revoked", "invitation.revoked"]


def test_webhook_secrets_and_paths_are_not_recorded(owner: Membership) -> None:
    client = make_client(owner.account)
    secret = endpoints.install(client, URL, by=SYSTEM)
    endpoints.rotate(client, by=SYSTEM, overlap=timedelta(hours=3))
    endpoints.disable(client, by=SYSTEM)
    endpoints.disable(client, by=SYSTEM)
    assert written() == ["webhook.enabled", "webhook.secret_rotated", "webhook.disabled"]
    recorded = str(list(AuditEvent.objects.values()))
    assert "hooks.example.com" in recorded
    assert not [text for text in ("secret-path", "token=", secret) if text in recorded]


def test_disabling_a_failing_webhook_is_recorded_as_the_system(owner: Membership) -> None:
    endpoints.install(make_client(owner.account), URL, by=SYSTEM)
    endpoint = Endpoint.objects.get()
    now = timezone.now()
    endpoint.failing_since = now - retries.DISABLED_AFTER
    retries.update_health(endpoint, succeeded=False, now=now)
    assert AuditEvent.objects.latest("pk").actor == "System"
    assert written()[-1] == "webhook.disabled"


def test_only_cancellations_by_others_are_recorded(owner: Membership) -> None:
    request = RequestFactory().post("/")
    own, _ = make_key(owner.account)
    other, _ = make_key(owner.account)
    first, second, third = (make_job(own.client, api_key=own) for _ in range(3))
    cancellation.cancel(first, by=audit.api_key(own, request))
    assert "job.cancelled" not in written()
    for _ in range(2):
        cancellation.cancel(second, by=audit.api_key(other, request))
    cancellation.cancel(third, by=actor_of(owner))
    events = AuditEvent.objects.filter(action=Action.JOB_CANCELLED).order_by("pk")
    assert [(event.target_id, event.actor) for event in events] == [
        (second.pk, f"API key {other}"),
        (third.pk, owner.user.email),
    ]


def test_a_running_jobs_cancellation_is_recorded_once(owner: Membership) -> None:
    job = make_running_job()
    for _ in range(3):
        cancellation.cancel(job, by=actor_of(owner))
    assert written() == ["job.cancelled"]
    job_moves.finish(job, job_moves.CANCELLED_LOST)
    job = make_running_job()
    job_moves.finish(job, job_moves.Outcome(status=Status.FAILED, error_code="internal"))
    with pytest.raises(JobAlreadyEnded):
        cancellation.cancel(job, by=actor_of(owner))
    assert written() == ["job.cancelled"]


def test_pauses_by_others_are_recorded_once(owner: Membership) -> None:
    own, _ = make_key(owner.account)
    job = make_job(own.client, api_key=own)
    for by in (audit.api_key(own, RequestFactory().post("/")), actor_of(owner)):
        for _ in range(2):
            pausing.pause(job, by=by)
        for _ in range(2):
            pausing.resume(job, by=by)
    assert written() == ["key.created", "job.paused", "job.resumed"]


def test_operators_are_recorded_by_name(owner: Membership) -> None:
    request = RequestFactory().post("/", REMOTE_ADDR="2001:db8::1")
    request.user = User.objects.create_superuser("alice")
    by = audit.operator(request)
    requeued, released = make_running_job(), make_running_job()
    assert operator_actions.requeue(requeued, by=by)
    assert operator_actions.release(released, by=by)
    events = AuditEvent.objects.order_by("pk").values_list("action", "actor", "address", "target")
    assert list(events) == [
        ("job.requeued", "Operator alice", "2001:db8::1", str(requeued.pk)),
        ("job.released", "Operator alice", "2001:db8::1", str(released.pk)),
    ]


class TestKeysOfRemovedMembers:
    def test_can_be_revoked(self, owner: Membership) -> None:
        guest, elsewhere = make_member(owner.account, role="member"), make_member()
        Membership.objects.create(user=guest.user, account=elsewhere.account, role="owner")
        guest_key, _ = make_key(owner.account, by=actor_of(guest))
        expired, _ = make_key(owner.account, by=actor_of(guest), expires_at=timezone.now() - timedelta(days=1))
        others, _ = make_key(owner.account, by=actor_of(owner))
        key_elsewhere, _ = make_key(elsewhere.account, by=actor_of(guest))
        members.remove(owner.account, guest.pk, by=actor_of(owner), revoke_keys=True)
        states = [ApiKey.objects.get(pk=key.pk).state for key in (guest_key, expired, others, key_elsewhere)]
        assert states == ["revoked", "expired", "active", "active"]
        assert written()[-2:] == ["member.removed", "key.revoked"]

    def test_can_be_kept(self, owner: Membership) -> None:
        guest = make_member(owner.account, role="member")
        key, _ = make_key(owner.account, by=actor_of(guest))
        members.remove(owner.account, guest.pk, by=actor_of(guest), revoke_keys=False)
        assert ApiKey.objects.get(pk=key.pk).state == "active"
        assert written()[-1] == "member.left"

    @pytest.mark.django_db(transaction=True)
    def test_concurrent_revocations_are_recorded_once(self) -> None:
        for _ in range(5):
            key, _secret = make_key()
            at_once(4, lambda: keys.revoke(key, by=SYSTEM))  # noqa: B023 - all have ended within the step
            assert AuditEvent.objects.filter(action=Action.KEY_REVOKED, target_id=key.pk).count() == 1

    def test_a_removed_member_cannot_create_a_key(self, owner: Membership) -> None:
        guest = make_member(owner.account, role="member")
        members.remove(owner.account, guest.pk, by=actor_of(owner), revoke_keys=True)
        with pytest.raises(NotAMember):
            make_key(owner.account, by=actor_of(guest))

    @pytest.mark.django_db(transaction=True)
    def test_a_removal_waits_for_a_concurrent_new_key(self) -> None:
        """Remove a member while a transaction that creates their key is still open."""
        owner = make_member()
        guest = make_member(owner.account, role="member")

        def remove() -> None:
            try:
                members.remove(owner.account, guest.pk, by=actor_of(owner), revoke_keys=True)
            finally:
                connection.close()

        removal = threading.Thread(target=remove)
        with transaction.atomic():
            key, _ = make_key(owner.account, by=actor_of(guest))
            removal.start()
            wait_until(another_waits)
        removal.join()
        assert not Membership.objects.filter(pk=guest.pk).exists()
        assert ApiKey.objects.get(pk=key.pk).state == "revoked"


WAITS = "SELECT EXISTS(SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid)))"


def another_waits() -> bool:
    """Return whether another connection waits for a lock of this one."""
    with connection.cursor() as cursor:
        cursor.execute(WAITS)
        return bool(cursor.fetchone()[0])


@pytest.mark.parametrize(
    ("proxies", "forwarded", "remote", "address"),
    [
        (0, "198.51.100.1", "203.0.113.9", "203.0.113.9"),
        (1, "198.51.100.1", "10.0.0.1", "198.51.100.1"),
        (1, "6.6.6.6, 198.51.100.1", "10.0.0.1", "198.51.100.1"),
        (2, "6.6.6.6, 198.51.100.1, 10.0.0.2", "10.0.0.1", "198.51.100.1"),
        (2, "198.51.100.1", "10.0.0.1", "198.51.100.1"),
        (1, "", "203.0.113.9", "203.0.113.9"),
        (1, "6.6.6.6, 198.51.100.1:4711", "10.0.0.1", "198.51.100.1"),
        (1, "[2001:db8::1]:4711", "10.0.0.1", "2001:db8::1"),
        (1, "2001:db8::1", "10.0.0.1", "2001:db8::1"),
        (1, "unknown", "10.0.0.1", None),
        (0, "", "fe80::1%eth0", "fe80::1"),
        (0, "", "", None),
    ],
)
def test_the_address_is_taken_from_the_trusted_proxy(
    proxies: int, forwarded: str, remote: str, address: str | None, settings: Settings
) -> None:
    settings.TRUSTED_PROXIES = proxies
    request = RequestFactory().get("/", headers={"x-forwarded-for": forwarded}, REMOTE_ADDR=remote)
    assert client_address(request) == address
