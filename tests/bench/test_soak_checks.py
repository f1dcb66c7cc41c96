"""The queries with which the soak checks that no job was lost or billed twice."""

import pytest
from django.db import connection

from bench.moves import outcome
from bench.soak_checks import VIOLATIONS
from jobs.lifecycle import job_moves
from jobs.models import JobEvent, Run
from tests.factories import make_job, make_running_job

pytestmark = pytest.mark.django_db


def violations() -> set[str]:
    """Return the names of the checks that find something."""
    found = set()
    with connection.cursor() as cursor:
        for name, query in VIOLATIONS.items():
            cursor.execute(query)
            (count,) = cursor.fetchone()
            if count:
                found.add(name)
    return found


def finish_a_job() -> int:
    """Run a job to its end and return its id."""
    job = make_running_job()
    Run.objects.update(ended_at=job.started_at)
    assert job_moves.finish(job, outcome())
    return job.pk


def test_a_finished_job_violates_nothing() -> None:
    finish_a_job()
    assert violations() == set()


def test_a_waiting_job_is_a_violation() -> None:
    make_job()
    assert violations() == {
        "jobs that have not ended",
        "jobs without exactly one end",
        "jobs without exactly one settled hold",
    }


def test_a_running_process_is_a_violation() -> None:
    finish_a_job()
    Run.objects.update(ended_at=None, wall_ms=None)
    assert violations() == {"runs that have not ended"}


def test_a_second_end_is_found() -> None:
    job_id = finish_a_job()
    last = JobEvent.objects.filter(job_id=job_id).order_by("-id")[0]
    JobEvent.objects.create(job_id=job_id, at=last.at, to_status="failed", attempt=1)
    assert violations() == {"jobs without exactly one end"}


def test_a_missing_hold_is_found() -> None:
    finish_a_job()
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica; DELETE FROM billing_hold")
        cursor.execute("SET session_replication_role = DEFAULT")
    assert violations() == {"jobs without exactly one settled hold"}


def test_a_missing_run_is_found() -> None:
    finish_a_job()
    Run.objects.all().delete()
    assert violations() == {"completed jobs without a run of their last attempt"}


def test_a_run_of_an_unknown_attempt_is_found() -> None:
    finish_a_job()
    Run.objects.update(attempt=2)
    assert "runs of attempts that were never claimed" in violations()


def test_an_attempt_without_a_claim_is_found() -> None:
    finish_a_job()
    JobEvent.objects.filter(to_status="starting").delete()
    assert violations() == {"attempts without their claim"}
