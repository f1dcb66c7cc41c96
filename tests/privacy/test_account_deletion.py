"""Deletion of accounts: the grace period, the removal in batches, and what is kept."""

import time
from datetime import timedelta
from math import inf
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin import autodiscover, site
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.messages import get_messages
from django.contrib.messages.storage.cookie import CookieStorage
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, models
from django.test import RequestFactory
from django.utils import timezone

from billing.models import Account, Balance, Entry, Grant, Hold
from clients.models import ApiKey, AuditEvent, Client, FirstAccount, Invitation, Membership
from jobs.artifacts import artifact_files, retention
from jobs.enums import ACTIVE, CLAIMED
from jobs.lifecycle import job_moves
from jobs.models import Job
from privacy import accounts, exports, tasks
from privacy.errors import DeletionStarted
from privacy.models import AccountDeletion, Export
from tests.admin_actions import act, choose, confirm
from tests.conftest import Api
from tests.dashboard.browsing import browser_of, text_of
from tests.dashboard.signing_in import PASSWORD, confirm_identity, log_in
from tests.factories import actor_of, make_invitation, make_key, make_member
from tests.privacy.data import make_full_account
from webhooks.models import Endpoint, Event

pytestmark = pytest.mark.django_db
ACCOUNTS = "/admin/billing/account/"
KEPT = {Account, AccountDeletion, Balance, Client, Entry, Grant, Hold, FirstAccount}


def start(owner: Membership) -> None:
    accounts.request(owner.account, by=actor_of(owner))


def make_due(owner: Membership) -> None:
    """End the grace period, and every running job, as its worker does when it is cancelled."""
    accounts.finish_now(owner.account, by=actor_of(owner))
    accounts.proceed()
    for job in Job.objects.filter(account=owner.account, status__in=CLAIMED):
        job_moves.finish(job, job_moves.CANCELLED)


def complete() -> None:
    """Run the round that removes the rest, and the one that finds nothing more."""
    tasks.delete_data()
    tasks.delete_data()


def delete_account(owner: Membership) -> None:
    start(owner)
    make_due(owner)
    complete()


def is_completed(owner: Membership) -> bool:
    return AccountDeletion.objects.filter(pk=owner.account.pk, completed_at__isnull=False).exists()


def rows_of(account: Account) -> dict[type[models.Model], int]:
    """Return the number of rows of each model that has an account, for one account."""
    found = {}
    for model in apps.get_models():
        if any(field.name == "account" and field.related_model is Account for field in model._meta.fields):
            found[model] = model._default_manager.filter(account=account).count()
    return {model: count for model, count in found.items() if count}


def ledger_of(account: Account) -> list[Any]:
    return [list(model._default_manager.filter(account=account).order_by("pk").values()) for model in (Entry, Hold)]


def test_a_request_stops_everything_at_once(owner: Membership, api: Api) -> None:
    _, secret = make_key(owner.account)
    start(owner)
    assert Api(secret).get("jobs").json()["code"] == "revoked_token"
    owner.account.refresh_from_db()
    assert owner.account.suspended_at is not None
    assert not Endpoint.objects.filter(disabled_at=None).exists()
    assert not Invitation.objects.filter(closed_at=None).exists()
    tasks.delete_data()
    unfinished = Job.objects.filter(status__in=ACTIVE)
    assert [bool(job.cancel_requested_at) for job in unfinished] == [True]
    assert Job.objects.count() == 3


def test_a_deletion_can_be_undone(owner: Membership) -> None:
    start(owner)
    assert accounts.undo(owner.account, by=actor_of(owner))
    owner.account.refresh_from_db()
    assert owner.account.suspended_at is None
    assert not accounts.undo(owner.account, by=actor_of(owner))
    tasks.delete_data()
    assert Job.objects.count() == 3
    actions = AuditEvent.objects.filter(action__startswith="account.").values_list("action", flat=True)
    assert list(actions.order_by("pk")) == ["account.deletion_requested", "account.deletion_undone"]


def test_a_suspension_in_the_grace_period_is_kept(owner: Membership) -> None:
    start(owner)
    at = timezone.now() + timedelta(days=1)
    Account.objects.filter(pk=owner.account.pk).update(suspended_at=at)
    accounts.undo(owner.account, by=actor_of(owner))
    owner.account.refresh_from_db()
    assert owner.account.suspended_at == at


@pytest.mark.parametrize("step", [accounts.cancel_jobs, lambda each: accounts._advance(each, until=inf)])
def test_a_deletion_undone_in_a_round_removes_nothing(owner: Membership, step: Any) -> None:
    start(owner)
    accounts.undo(owner.account, by=actor_of(owner))
    before = rows_of(owner.account)
    assert not step(owner.account)
    assert rows_of(owner.account) == before
    assert not Job.objects.filter(cancel_requested_at__isnull=False).exists()
    owner.account.refresh_from_db()
    assert owner.account.suspended_at is None


def test_a_failing_deletion_does_not_stop_others(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    other = make_full_account()
    for each in (other, owner):
        start(each)
        make_due(each)
    remove = accounts.remove_jobs

    def fail_for_other(account: Account, *, until: float) -> bool:
        return remove(account, until=until / (account != other.account))

    monkeypatch.setattr(accounts, "remove_jobs", fail_for_other)
    complete()
    assert (is_completed(other), is_completed(owner)) == (False, True)


def test_a_failing_storage_does_not_stop_deletions(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise OSError

    monkeypatch.setattr(exports, "delete_expired", fail)
    monkeypatch.setattr(exports, "delete_unknown", fail)
    delete_account(owner)
    assert is_completed(owner)


def test_due_deletions_share_the_time(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (owner, make_full_account()):
        start(each)
        accounts.finish_now(each.account, by=actor_of(each))
    shares: list[float] = []

    def take(_: Account, *, until: float) -> bool:
        shares.append(until - time.monotonic())
        return False

    monkeypatch.setattr(accounts, "_advance", take)
    accounts.proceed()
    assert shares[0] < accounts.ROUND_SECONDS * 0.6 < shares[1]


def test_an_earlier_suspension_survives_the_undoing(owner: Membership) -> None:
    at = timezone.now() - timedelta(days=1)
    Account.objects.filter(pk=owner.account.pk).update(suspended_at=at)
    start(owner)
    accounts.undo(owner.account, by=actor_of(owner))
    owner.account.refresh_from_db()
    assert owner.account.suspended_at == at


def test_a_due_deletion_cannot_be_undone(owner: Membership) -> None:
    start(owner)
    accounts.finish_now(owner.account, by=actor_of(owner))
    with pytest.raises(DeletionStarted):
        accounts.undo(owner.account, by=actor_of(owner))


def test_nothing_is_removed_in_the_grace_period(owner: Membership) -> None:
    start(owner)
    before = rows_of(owner.account)
    tasks.delete_data()
    after = rows_of(owner.account)
    assert all(after[model] >= count for model, count in before.items())


@pytest.mark.usefixtures("each_storage")
def test_everything_but_the_ledger_is_removed(owner: Membership) -> None:
    other = make_full_account()
    exports.request_account_export(owner.account, by=actor_of(owner))
    tasks.build_exports()
    names = [export.file_name for export in Export.objects.all()]
    folders = {artifact_files.folder_of(job.pk): f"{job.pk}-" for job in Job.objects.filter(account=owner.account)}
    others = rows_of(other.account)
    delete_account(owner)
    assert rows_of(owner.account).keys() <= KEPT
    assert rows_of(other.account) == others
    assert not any(default_storage.exists(name) for name in names)
    for folder, prefix in folders.items():
        assert not any(name.startswith(prefix) for name in default_storage.listdir(folder)[1])
    call_command("verifyledger")
    call_command("verifystorage")


def test_the_kept_account_has_no_personal_data(owner: Membership) -> None:
    before = ledger_of(owner.account)
    name, email, key = owner.account.name, owner.user.email, ApiKey.objects.get(client__account=owner.account)
    for row in (owner.account, owner, key):
        LogEntry.objects.log_actions(owner.user.pk, [row], CHANGE, name)
    start(owner)
    make_due(owner)
    settled = ledger_of(owner.account)
    complete()
    assert ledger_of(owner.account) == settled
    assert [len(rows) for rows in settled] >= [len(rows) for rows in before]
    account = Account.objects.get(pk=owner.account.pk)
    deletion = AccountDeletion.objects.get(pk=account.pk)
    assert account.name.startswith(f"deleted-{account.pk}-")
    assert deletion.completed_at is not None
    rows = [
        *Client.objects.filter(account=account).values(),
        *ApiKey.objects.filter(client__account=account).values(),
    ]
    kept = f"{account.__dict__} {deletion.__dict__} {settled} {rows} {list(LogEntry.objects.values())}"
    assert not any(text in kept for text in (name, email, "bot", key.sha256, key.last4, "192.0.2.7"))


def test_rows_written_during_the_last_round_are_removed(owner: Membership) -> None:
    start(owner)
    make_due(owner)
    tasks.delete_data()
    make_invitation(owner.account, email="late@example.org")
    tasks.delete_data()
    assert not is_completed(owner)
    tasks.delete_data()
    assert is_completed(owner)
    assert rows_of(owner.account).keys() <= KEPT


def test_a_repeated_request_changes_nothing(owner: Membership) -> None:
    start(owner)
    before = AccountDeletion.objects.values().get(), AuditEvent.objects.count()
    start(owner)
    assert (AccountDeletion.objects.values().get(), AuditEvent.objects.count()) == before


class Killed(BaseException):
    """The process was killed."""


STEPS = [
    "cancel_jobs",
    "remove_jobs",
    "clear_jobs",
    "remove_webhook_events",
    "remove_rest",
    "_remove_rows",
    "_delete_batch",
]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.django_db(transaction=True)
def test_a_crash_at_any_step_is_made_up_for(step: str, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = make_full_account()
    start(owner)
    make_due(owner)
    module = retention if step == "clear_jobs" else accounts
    original = getattr(module, step)

    def crash(*args: Any, **kwargs: Any) -> Any:
        if when == "after":
            original(*args, **kwargs)
        raise Killed

    monkeypatch.setattr(module, step, crash)
    with pytest.raises(Killed):
        complete()
    monkeypatch.undo()
    complete()
    assert is_completed(owner)
    assert rows_of(owner.account).keys() <= KEPT
    call_command("verifyledger")


def test_data_is_removed_in_batches(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "BATCH", 1)
    delete_account(owner)
    assert rows_of(owner.account).keys() <= KEPT


def test_a_round_ends_within_its_time_limit(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    start(owner)
    accounts.finish_now(owner.account, by=actor_of(owner))
    monkeypatch.setattr(accounts, "ROUND_SECONDS", -1.0)
    assert accounts.proceed() == 0
    assert Job.objects.count() == 3
    assert not Job.objects.filter(status__in=ACTIVE, cancel_requested_at=None).exists()


def test_a_job_that_still_runs_delays_the_removal(owner: Membership) -> None:
    start(owner)
    accounts.finish_now(owner.account, by=actor_of(owner))
    tasks.delete_data()
    assert Job.objects.count() == 3


def test_an_event_in_flight_delays_the_removal(owner: Membership) -> None:
    start(owner)
    make_due(owner)
    lease = timezone.now() + timedelta(minutes=1)
    Event.objects.update(state="sending", next_attempt_at=None, lease_expires_at=lease, failure="", ended_at=None)
    tasks.delete_data()
    assert AccountDeletion.objects.get().completed_at is None
    Event.objects.update(state="delivered", lease_expires_at=None, ended_at=timezone.now())
    complete()
    assert AccountDeletion.objects.get().completed_at is not None


def test_a_lifted_suspension_is_restored(owner: Membership) -> None:
    start(owner)
    Account.objects.filter(pk=owner.account.pk).update(suspended_at=None)
    make_due(owner)
    owner.account.refresh_from_db()
    assert owner.account.suspended_at is not None


def test_the_audit_log_is_still_final(owner: Membership) -> None:
    accounts._delete_batch(AuditEvent.objects.none())
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL simservice.removes_account = ''")
    with pytest.raises(DatabaseError, match="never changed or deleted"):
        AuditEvent.objects.all().delete()


def test_an_owner_deletes_the_account_in_the_dashboard(owner: Membership, client: Any) -> None:
    owner.user.set_password(PASSWORD)
    owner.user.save()
    log_in(client, owner.user.email)
    page = f"/dashboard/{owner.account}/data"
    assert client.get(f"{page}/delete").headers["Location"].startswith("/accounts/reauthenticate/?next=")
    assert client.post(f"{page}/delete", {"name": owner.account.name}).status_code == 302
    assert not AccountDeletion.objects.exists()
    confirm_identity(client)
    assert client.get(f"{page}/delete").status_code == 200
    assert "Enter account-" in text_of(client.post(f"{page}/delete", {"name": "another"}))
    assert client.post(f"{page}/delete", {"name": owner.account.name}).headers["Location"] == page
    assert "This account will be deleted on" in text_of(client.get(page))
    assert client.post(f"{page}/keep").headers["Location"] == page
    assert not AccountDeletion.objects.exists()


@pytest.mark.parametrize("role", ["member", "viewer"])
def test_only_owners_delete(owner: Membership, role: str) -> None:
    http = browser_of(make_member(owner.account, role=role))
    for path in ("delete", "keep"):
        assert http.post(f"/dashboard/{owner.account}/data/{path}", {"name": owner.account.name}).status_code == 403


def test_the_command_deletes_and_undoes(owner: Membership, capsys: Any) -> None:
    call_command("deleteaccount", owner.account.name)
    assert "will be deleted on" in capsys.readouterr().out
    call_command("deleteaccount", owner.account.name, "--undo")
    with pytest.raises(CommandError, match="is not being deleted"):
        call_command("deleteaccount", owner.account.name, "--undo")
    call_command("deleteaccount", owner.account.name, "--now")
    with pytest.raises(CommandError, match="cannot be undone"):
        call_command("deleteaccount", owner.account.name, "--undo")
    with pytest.raises(CommandError, match="no account"):
        call_command("deleteaccount", "unknown")


def test_an_operator_deletes_in_the_admin(owner: Membership, admin_client: Any) -> None:
    page = "/admin/privacy/accountdeletion/"
    preview = choose(admin_client, ACCOUNTS, "request_deletion", [owner.account.pk])
    assert "Active keys: 1. Enabled webhooks: 1. Unfinished jobs: 2." in preview.content.decode()
    assert not AccountDeletion.objects.exists()
    confirm(admin_client, ACCOUNTS, preview)
    again = choose(admin_client, ACCOUNTS, "request_deletion", [owner.account.pk])
    assert "Skipped: its deletion was already requested." in again.content.decode()
    deletion = AccountDeletion.objects.get()
    assert deletion.requested_by.startswith("Operator")
    assert not ApiKey.objects.filter(client__account=owner.account, revoked_at=None).exists()
    act(admin_client, page, "finish_now", [deletion.pk])
    act(admin_client, page, "undo", [deletion.pk])
    assert AccountDeletion.objects.get().due_at <= timezone.now()
    AccountDeletion.objects.update(due_at=timezone.now() + timedelta(days=1))
    act(admin_client, page, "undo", [deletion.pk])
    assert not AccountDeletion.objects.exists()
    logged = LogEntry.objects.filter(object_id=str(owner.account.pk)).order_by("pk")
    assert list(logged.values_list("change_message", flat=True)) == [
        "Deletion requested",
        "The grace period was ended.",
        "The deletion was undone.",
    ]


def test_the_end_of_a_grace_period_is_recorded(owner: Membership) -> None:
    assert not accounts.finish_now(owner.account, by=actor_of(owner))
    start(owner)
    assert accounts.finish_now(owner.account, by=actor_of(owner))
    assert not accounts.finish_now(owner.account, by=actor_of(owner))
    ended = AuditEvent.objects.get(action="account.grace_period_ended")
    assert (ended.account, ended.user_id) == (owner.account, owner.user.pk)


@pytest.mark.parametrize("action", ["undo_each", "finish_each"])
def test_a_deletion_undone_meanwhile_is_reported(owner: Membership, action: str, rf: RequestFactory) -> None:
    autodiscover()
    start(owner)
    deletion = AccountDeletion.objects.get()
    accounts.undo(owner.account, by=actor_of(owner))
    request = rf.get("/")
    request.user, request._messages = owner.user, CookieStorage(request)  # type: ignore[attr-defined]
    getattr(site.get_model_admin(AccountDeletion), action)(request, [deletion])
    (message,) = get_messages(request)
    assert "nothing was done" in str(message)
    assert not LogEntry.objects.exists()
