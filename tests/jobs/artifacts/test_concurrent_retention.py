"""Concurrent rounds of the retention, and how they find due jobs."""

import io
import re
from datetime import timedelta

import pytest
from django.core.files.storage import default_storage
from django.db import connection
from django.utils import timezone

from jobs import tasks
from jobs.artifacts import artifact_files, retention
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Job, JobProfile
from tests.concurrency import at_once
from tests.factories import make_running_job
from tests.jobs.plans import reindex_jobs

CANCELLED = Outcome(status=Status.CANCELLED, error_code="user_cancelled")


def make_expired_job() -> Job:
    """Make a job that ended long ago, with a file."""
    job = make_running_job()
    artifact_files.store(job, Artifact.Kind.INPUT, io.BytesIO(b"mage=x")).save(force_insert=True)
    assert job_moves.finish(job, CANCELLED)
    Job.objects.filter(pk=job.pk).update(created_at=timezone.now() - timedelta(days=40))
    return job


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("each_storage")
def test_concurrent_rounds_clear_each_job_once() -> None:
    jobs = [make_expired_job() for _ in range(6)]
    cleared: list[int] = []
    at_once(4, lambda: cleared.append(retention.clear_expired()))
    assert sum(cleared) == 6
    assert not JobProfile.objects.exists()
    assert not any(default_storage.exists(job.artifacts.get().storage_name) for job in jobs)


@pytest.mark.django_db
def test_due_jobs_are_found_by_an_index() -> None:
    make_expired_job()
    Job.objects.filter(pk=make_expired_job().pk).update(retention_days=7)
    reindex_jobs()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; ANALYZE jobs_job")
    plans = [due.values_list("pk")[:500].explain() for due in retention.overdue()]
    for plan, days in zip(plans, ["(retention_days IS NULL)", "(retention_days = 7)"], strict=True):
        assert "Index Scan using job_to_expire" in plan
        assert f"Index Cond: ({days} AND (created_at <" in plan
        assert "Sort" not in plan


@pytest.mark.django_db
def test_the_periods_are_found_by_an_index() -> None:
    for days in (7, 7, 90, None):
        Job.objects.filter(pk=make_expired_job().pk).update(retention_days=days)
    reindex_jobs()
    with connection.cursor() as cursor:
        # The table is small, but other tests may have left it with many pages.
        cursor.execute(
            "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off"
        )
        cursor.execute("ANALYZE jobs_job")
        cursor.execute(retention.PERIODS)
        assert cursor.fetchall() == [(7,), (90,)]
        cursor.execute(f"EXPLAIN {retention.PERIODS}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert re.search(r"Index (Only )?Scan using job_to_expire", plan), plan
    assert not re.search(r"Seq Scan|Sort", plan), plan


@pytest.mark.django_db
def test_the_celery_task_clears_due_jobs(caplog: pytest.LogCaptureFixture) -> None:
    make_expired_job()
    with caplog.at_level("INFO"):
        tasks.clear_expired()
    assert "removed the files of 1 expired jobs" in caplog.text
