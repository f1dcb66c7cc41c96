"""What happened to jobs in the last hour."""

from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now

from jobs.enums import ErrorCode, Status
from jobs.failure_causes import FAULTS, Fault
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job
from jobs.operations import last_hour
from tests.factories import make_job, make_running_job

pytestmark = pytest.mark.django_db


def end(code: str | None, *, minutes_ago: float = 0.5) -> Job:
    """Return a job that waited ten seconds and ended some minutes ago."""
    job = make_running_job()
    done = Outcome(status=Status.COMPLETED, summary={})
    failed = Outcome(status=Status.FAILED, error_code=code, reason="x")
    assert job_moves.finish(job, failed if code else done)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
    Job.objects.filter(pk=job.pk).update(
        completed_at=Now() - timedelta(minutes=minutes_ago),
        created_at=Now() - timedelta(hours=2),
        started_at=Now() - timedelta(hours=2) + timedelta(seconds=10),
        credits_consumed=7,
    )
    return job


def test_every_error_code_has_a_fault_except_a_cancellation() -> None:
    assert {ErrorCode(code) for code in FAULTS} == set(ErrorCode) - {ErrorCode.USER_CANCELLED}


def test_jobs_are_counted_in_intervals_with_their_waits() -> None:
    end(None)
    end(None, minutes_ago=58.5)
    end(None, minutes_ago=61)
    hour = last_hour.read()
    assert (hour.total, hour.ended[-1], hour.ended[0]) == (2, 1, 1)
    assert hour.mean_wait == hour.waits[-1] == 10
    assert hour.waits[5] == 0


def test_errors_are_counted_by_fault() -> None:
    for code in ("internal", "internal", "execution_failed", "input_invalid", "user_cancelled", "of_the_future"):
        end(code)
    hour = last_hour.read()
    assert hour.errors == {"internal": 2, "execution_failed": 1, "input_invalid": 1, "of_the_future": 1}
    assert {fault: sum(counts) for fault, counts in hour.errors_by_fault.items()} == {
        Fault.SERVICE: 3,
        Fault.SIMULATOR: 1,
        Fault.USER: 1,
    }


def test_accounts_are_listed_with_what_they_did() -> None:
    ended, waiting = end("internal"), make_job()
    running = make_running_job(client=waiting.client)
    loads = {load.account.pk: load for load in last_hour.accounts(limit=10)}
    first, second = loads[ended.account_id], loads[running.account_id]
    assert (first.ended, first.credits, first.waiting, first.running) == (1, 7, 0, 0)
    assert first.errors == {"service": 1, "simulator": 0, "user": 0}
    assert (second.ended, second.waiting, second.running) == (0, 1, 1)


def test_accounts_are_limited() -> None:
    for _ in range(3):
        end(None)
    assert len(last_hour.accounts(limit=2)) == 2


def test_builds_are_compared() -> None:
    failed, done = end("execution_failed"), end(None)
    shares = last_hour.builds()
    assert failed.build_id
    assert shares[failed.build_id].simulator_errors == 1
    assert sum(share.ended for share in shares.values()) == 2
    assert sum(share.percent for share in shares.values()) == pytest.approx(100)
    assert done.build_id in shares
