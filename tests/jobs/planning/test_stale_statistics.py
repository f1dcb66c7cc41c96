"""Probes of an empty queue use its indexes even if PostgreSQL's statistics are those of a full queue."""

import re
from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.queue import announcements, sweep
from tests.factories import make_job

# Committed and truncated, because rows that are rolled back would change the plans of later tests.
pytestmark = pytest.mark.django_db(transaction=True)

WAITING_JOBS = """
    INSERT INTO jobs_job SELECT copy.*
    FROM jobs_job AS job, generate_series(1, 100000) AS n, jsonb_populate_record(job, jsonb_build_object(
        'id', job.id + n, 'share_token', n::text)) AS copy
"""
END_ALL = """
    UPDATE jobs_job SET status = 'failed', error_code = 'internal', completed_at = now(), credits_consumed = 0
"""


@pytest.fixture
def _ended_queue() -> None:
    make_job()
    with connection.cursor() as cursor:
        # Otherwise, autovacuum could update the statistics during the test.
        cursor.execute("ALTER TABLE jobs_job SET (autovacuum_enabled = off)")
        cursor.execute(WAITING_JOBS)
        cursor.execute("ANALYZE jobs_job")
        cursor.execute(END_ALL)


@pytest.mark.usefixtures("_ended_queue")
def test_probes_of_the_queue_read_no_ended_jobs() -> None:
    probes: list[Callable[[], object]] = [sweep.idle_state, announcements.pass_on, announcements.replenish]
    try:
        for probe in probes:
            with CaptureQueriesContext(connection) as queries:
                probe()
            with connection.cursor() as cursor:
                cursor.execute("EXPLAIN " + queries[-1]["sql"])
                plan = str(cursor.fetchall())
            assert "job_active" in plan or "job_claimable" in plan, plan
            assert "Seq Scan on jobs_job " not in plan
            assert [key for key in re.findall(r"Sort Key: (\S+)", plan) if not key.startswith("jobs_run.")] == []
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE jobs_job RESET (autovacuum_enabled)")
