"""The counted bytes of accounts' files, and the limit of a plan."""

import io
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from billing.models import Account, Plan
from clients.accounts import default_client
from clients.models import ApiKey, Membership
from jobs.artifacts import artifact_files, retention, storage
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Job, StoredBytes
from tests.concurrency import at_once
from tests.conftest import Api
from tests.dashboard.browsing import browser_of, text_of
from tests.factories import PROFILE, BuildFactory, make_account, make_member, make_running_job

BODY = {"build": {"channel": "latest"}, "profile": {"text": PROFILE}}
KINDS = (Artifact.Kind.INPUT, Artifact.Kind.STDOUT_LOG)


@pytest.fixture
def account(db: None) -> Account:
    return make_account()


def end_with_files(job: Job, sizes: Sequence[int] = (7, 100)) -> None:
    """End a job with files of these sizes."""
    stored = [
        artifact_files.store(job, kind, io.BytesIO(b"x" * size)) for kind, size in zip(KINDS, sizes, strict=False)
    ]
    outcome = Outcome(status=Status.CANCELLED, error_code="user_cancelled")
    assert job_moves.finish(job, outcome, artifacts=stored)


def run_job(account: Account, sizes: Sequence[int] = (7, 100)) -> Job:
    """Run a job with files of these sizes."""
    job = make_running_job(client=default_client(account))
    end_with_files(job, sizes)
    return job


def expire(*jobs: Job) -> None:
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(created_at=timezone.now() - timedelta(days=31))


def test_files_are_counted_when_jobs_end_and_expire(account: Account) -> None:
    first, _ = run_job(account), run_job(account, [5])
    assert storage.stored_bytes(account) == 112
    expire(first)
    retention.clear_expired()
    assert storage.stored_bytes(account) == 5
    assert list(storage.verify()) == []


def test_a_job_without_files_counts_nothing(account: Account) -> None:
    run_job(account, [])
    assert not StoredBytes.objects.exists()
    assert list(storage.verify()) == []


@pytest.mark.django_db(transaction=True)
def test_concurrent_workers_count_every_file() -> None:
    account, other = make_account(), make_account()
    expire(*(run_job(each) for each in (account, other) * 2))
    running = [make_running_job(client=default_client(account)) for _ in range(8)]
    actions: list[Any] = [partial(end_with_files, job) for job in running]
    actions += [retention.clear_expired, retention.clear_expired, partial(storage.mend, account.pk)]
    at_once(len(actions), lambda: actions.pop()())
    retention.clear_expired()
    assert [storage.stored_bytes(each) for each in (account, other)] == [8 * 107, 0]
    assert list(storage.verify()) == []


@pytest.mark.parametrize("counted", [0, 100, 10**9])
def test_a_wrong_count_is_found_and_corrected(account: Account, counted: int, capsys: Any) -> None:
    run_job(account)
    StoredBytes.objects.update(bytes=counted)
    with pytest.raises(CommandError, match="1 discrepancy found"):
        call_command("verifystorage")
    assert f"account {account.pk}: counted {counted} bytes, artifacts have 107 bytes" in capsys.readouterr().out
    call_command("verifystorage", "--mend")
    assert storage.stored_bytes(account) == 107
    call_command("verifystorage")
    assert "No discrepancies found." in capsys.readouterr().out


def test_a_missing_count_is_corrected(account: Account) -> None:
    run_job(account)
    StoredBytes.objects.all().delete()
    call_command("verifystorage", "--mend")
    assert storage.stored_bytes(account) == 107


def test_a_count_that_is_too_low_does_not_stop_retention(account: Account) -> None:
    expire(run_job(account))
    StoredBytes.objects.update(bytes=1)
    assert retention.clear_expired() == 1
    assert storage.stored_bytes(account) == 0


def limit(account: Account, limit: int | None) -> None:
    Plan.objects.filter(pk=account.plan_id).update(max_stored_bytes=limit)


def test_a_submission_at_the_limit_is_refused(api: Api, key: tuple[ApiKey, str]) -> None:
    BuildFactory.create()
    account = key[0].client.account
    run_job(account)
    limit(account, 107)
    response = api.post("jobs", BODY)
    assert (response.status_code, response.json()["code"]) == (429, "rate_limit_exceeded")
    facts = {"scope": "developer", "limit": "storage", "storedBytes": 107, "maxStoredBytes": 107}
    assert response.json()["meta"] == facts
    assert response.headers["Retry-After"] == "3600"
    assert '"limit":"storage"' in api.post("jobs/validate", BODY).content.decode()
    limit(account, 108)
    assert api.post("jobs", BODY).status_code == 200


def test_an_idempotent_replay_is_answered_at_the_limit(api: Api, key: tuple[ApiKey, str]) -> None:
    BuildFactory.create()
    first = api.post("jobs", BODY, headers={"idempotency-key": "once"})
    run_job(key[0].client.account)
    limit(key[0].client.account, 1)
    again = api.post("jobs", BODY, headers={"idempotency-key": "once"})
    assert (again.status_code, again.content) == (200, first.content)


def test_the_usage_page_shows_the_storage(account: Account) -> None:
    owner = make_member(account, role=Membership.Role.VIEWER)
    run_job(account, [2048, 1024])
    limit(account, 4096)
    page = text_of(browser_of(owner).get(f"/dashboard/{account}/usage")).replace("\xa0", " ")
    assert "Stored files: 3.0 KB of 4.0 KB." in page
    assert "kept for 30 days" in page
