"""The queries with which the soak checks that no job was lost or billed twice."""

import pytest
from django.db import connection

from bench.moves import OUTCOME
from bench.soak import VIOLATIONS
from jobs.lifecycle import job_moves
from tests.factories import make_job, make_running_job

pytestmark = pytest.mark.django_db
SECOND_END = """
    INSERT INTO jobs_jobevent (job_id, at, from_status, to_status, attempt, reason)
    SELECT id, now(), '', 'failed', 1, '' FROM jobs_job
"""


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
        cursor.execute("UPDATE jobs_run SET ended_at = started_at")
    assert job_moves.finish(job, OUTCOME)


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


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("UPDATE jobs_run SET ended_at = NULL, wall_ms = NULL", {"runs that have not ended"}),
        (SECOND_END, {"jobs without exactly one end"}),
        ("DELETE FROM billing_hold", {"jobs without exactly one settled hold"}),
        ("DELETE FROM jobs_run", {"completed jobs without a run of their last attempt"}),
        ("DELETE FROM jobs_jobevent WHERE to_status = 'starting'", {"attempts without their claim"}),
        (
            "UPDATE jobs_run SET attempt = 2",
            {
                "runs of attempts that were never claimed",
                "completed jobs without a run of their last attempt",
            },
        ),
    ],
)
def test_each_damage_is_found(damage: str, found: set[str]) -> None:
    finish_a_job()
    with connection.cursor() as cursor:
        # Triggers protect the ledger.
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(damage)
        cursor.execute("SET session_replication_role = DEFAULT")
    assert violations() == found
