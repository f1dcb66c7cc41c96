"""The queries with which the soak checks that no job was lost or billed twice."""

import pytest
from django.db import connection

from bench.moves import OUTCOME
from bench.soak import VIOLATIONS
from jobs.lifecycle import job_moves
from tests.factories import make_job, make_running_job

pytestmark = pytest.mark.django_db


def violations() -> set[str]:
    """Return the names of the checks that find something."""
    found = set()
    with connection.cursor() as cursor:
        for name, query in VIOLATIONS.items():
            cursor.execute(query)
            if cursor.fetchone()[0]:
                found.add(name)
    return found


def finish_a_job() -> None:
    """Run a job to its end."""
    job = make_running_job()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobs_run SET ended_at = started_at, wall_ms = 900")
    assert job_moves.finish(job, OUTCOME)


def test_a_finished_job_violates_nothing() -> None:
    finish_a_job()
    assert violations() == set()


def test_a_waiting_job_is_a_violation() -> None:
    make_job()
    assert violations() == {"jobs that have not ended"}


def test_a_result_without_a_run_is_a_violation() -> None:
    finish_a_job()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM jobs_run")
    assert violations() == {"completed jobs without a run"}
