"""Overdue jobs at the front of the queue, and jobs that the sweep cannot end."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from jobs.lifecycle import job_moves
from jobs.models import Job
from jobs.queue import sweep
from tests.billing import door
from tests.factories import make_job, make_running_job
from tests.jobs.plans import explained

pytestmark = pytest.mark.django_db

LATE = timedelta(seconds=5)
OVERDUE_JOBS = """
    INSERT INTO jobs_job SELECT copy.*
    FROM jobs_job AS job, generate_series(1, 20000) AS n, jsonb_populate_record(job, jsonb_build_object(
        'id', job.id + n, 'share_token', n::text, 'queue_deadline_at', now() - interval '5 s')) AS copy
"""


def make_overdue(**fields: Any) -> Job:
    """Make a waiting job past its queue limit."""
    return make_job(queue_deadline_at=timezone.now() - LATE, **fields)


# Committed and truncated, because rows that are rolled back would change the plans of later tests.
@pytest.mark.django_db(transaction=True)
@pytest.mark.slow
def test_a_claim_passes_over_overdue_jobs_in_one_index_scan() -> None:
    make_overdue(priority=0)
    with connection.cursor() as cursor:
        cursor.execute(OVERDUE_JOBS)
    job = make_job(priority=2)
    with transaction.atomic(), connection.cursor() as cursor:
        # What the indexes allow; statistics of earlier tests can favor other plans, also for joins.
        for kind in ("bitmapscan", "seqscan", "sort", "nestloop"):
            cursor.execute(f"SET LOCAL enable_{kind} = off")
        plan = explained(job_moves.SQL["claim_job"], job_moves.values_of_claim("w"), is_prepared=True)
    (scan,) = [part for part in parts(plan) if part.get("Index Name") == "job_claimable"]
    # Once for each of three lanes
    assert scan["Actual Loops"] == 3
    assert [round(3 * scan[name]) for name in ("Actual Rows", "Rows Removed by Filter")] == [1, 20_001]
    reads = [part for part in parts(plan) if part.get("Relation Name") == "jobs_job" and part != scan]
    assert all(part["Actual Rows"] <= 1 for part in reads)
    assert Job.objects.get(pk=job.pk).status == "starting"


def parts(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a plan and all its parts."""
    return [plan, *(inner for part in plan.get("Plans", []) for inner in parts(part))]


def test_the_sweep_ends_the_overdue_jobs_that_claims_skip() -> None:
    overdue, job = make_overdue(), make_job()
    claimed = job_moves.claim_job("w")
    assert claimed is not None
    assert claimed.pk == job.pk
    assert sweep.end_overdue_waits() == 1
    assert Job.objects.get(pk=overdue.pk).error_code == "queue_timeout"


def test_an_invalid_hold_does_not_stop_the_sweep_of_others(caplog: pytest.LogCaptureFixture) -> None:
    broken, overdue = make_overdue(), make_overdue()
    door.resolve_hold(broken.pk)
    assert sweep.end_overdue_waits() == 1
    assert f"job {broken.pk} cannot be ended" in caplog.text
    assert [Job.objects.get(pk=job.pk).status for job in (broken, overdue)] == ["pending", "failed"]


def test_an_invalid_hold_does_not_stop_the_recovery_of_others(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.MAX_ATTEMPTS = 1
    broken, lost = make_running_job(), make_running_job()
    door.resolve_hold(broken.pk)
    Job.objects.update(lease_expires_at=timezone.now() - LATE)
    assert sweep.recover_expired_leases() == 1
    assert f"job {broken.pk} cannot be ended" in caplog.text
    assert [Job.objects.get(pk=job.pk).status for job in (broken, lost)] == ["running", "failed"]
