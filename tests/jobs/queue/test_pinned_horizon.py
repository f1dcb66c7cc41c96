"""Claims search each lane from its first id, so an old transaction that keeps dead rows does not slow them down."""

from collections.abc import Iterator

import pytest
from django.db import connection

from jobs.enums import Priority
from jobs.lifecycle import job_moves
from jobs.queue import claims
from tests.factories import make_job
from tests.jobs.plans import ENDED, Plan, copy_job, plans_of

# Committed and truncated, because rows that are rolled back would change the plans of later tests.
pytestmark = pytest.mark.django_db(transaction=True)
CLAIMED, ENDED_JOBS = 1000, 10_000
MINUTE = 60_000 * 100_000
STORE = f"""
    INSERT INTO jobs_job SELECT copy.*
    FROM jobs_job AS job, generate_series(1, {CLAIMED}) AS n, jsonb_populate_record(job, jsonb_build_object(
        'id', job.id - {MINUTE} - n, 'share_token', n::text)) AS copy
    ORDER BY random()
"""  # noqa: S608 - constants
CLAIM_STORED = """
    UPDATE jobs_job SET status = 'running', attempt = 1, worker = 'w', lease_expires_at = now() + interval '1 hour'
    WHERE id < %s
"""
END_CLAIMED = """
    UPDATE jobs_job SET status = 'failed', error_code = 'internal', completed_at = now(), credits_consumed = 0,
        worker = '', lease_expires_at = NULL
    WHERE status = 'running'
"""


@pytest.fixture
def _dead_rows() -> Iterator[None]:
    """Claim and end many jobs while the snapshot of another transaction keeps their earlier rows."""
    last, other = make_job(), connection.copy()
    try:
        with other.cursor() as old, connection.cursor() as cursor:
            old.execute("SET idle_in_transaction_session_timeout = 0")
            old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            old.execute("SELECT pg_current_xact_id()")
            cursor.execute(STORE)
            cursor.execute(CLAIM_STORED, [last.pk])
            cursor.execute(END_CLAIMED)
            yield
    finally:
        other.close()


def plan_of_claim() -> Plan:
    return plans_of(lambda: job_moves.claim_job("w", first_ids=job_moves.find_first_ids()), table="jobs_job")[-1]


@pytest.mark.usefixtures("_dead_rows")
def test_a_claim_does_not_read_the_rows_of_claimed_jobs() -> None:
    (all_rows,) = plans_of(lambda: job_moves.claim_job("w"), table="jobs_job")
    assert all_rows.pages > 0.9 * CLAIMED
    make_job()
    plan = plan_of_claim()
    assert plan.pages < 50
    assert "job_claimable" in plan.indexes


@pytest.mark.usefixtures("_dead_rows")
def test_no_statistics_make_a_claim_read_them() -> None:
    """When few jobs wait, PostgreSQL expects every index of unfinished jobs to be as fast."""
    copy_job(make_job().pk, ENDED_JOBS, changes=ENDED)
    plan = plan_of_claim()
    assert plan.pages < 50
    assert plan.indexes >= {"job_claimable", "job_returned"}


@pytest.mark.usefixtures("_dead_rows")
def test_a_returned_job_is_claimed_before_newer_ones() -> None:
    lost = job_moves.claim_job("w")
    assert lost is not None
    first_ids = {int(lane): lost.pk + 1 for lane in Priority}
    job_moves.requeue(lost, reason="lost")
    make_job(lost.client)
    claimed = job_moves.claim_job("w", first_ids=first_ids)
    assert claimed is not None
    assert (claimed.pk, claimed.attempt) == (lost.pk, 2)


def test_jobs_of_the_last_seconds_are_above_the_first_ids() -> None:
    """A newer id can be committed later, and then earlier ones."""
    job = make_job(priority=Priority.BACKGROUND)
    assert max(job_moves.find_first_ids().values()) < job.pk
    old = make_job(priority=Priority.HIGH, id=job.pk - MINUTE)
    first_ids = job_moves.find_first_ids()
    assert first_ids[Priority.HIGH] == old.pk < first_ids[Priority.BACKGROUND] < job.pk


def test_a_job_that_is_stored_late_is_found_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    assert claims.claim_work("w") is None
    job = make_job()
    late = make_job(job.client, id=job.pk - MINUTE)
    assert claims.claim_work("w").pk == job.pk  # type: ignore[union-attr]
    assert claims.claim_work("w") is None
    monkeypatch.setattr(claims.first_ids, "_until", 0.0)
    assert claims.claim_work("w").pk == late.pk  # type: ignore[union-attr]
