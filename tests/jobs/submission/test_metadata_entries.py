"""Metadata entries are stored with a job, and removed after its retention."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from clients.accounts import default_client
from jobs.artifacts import retention
from jobs.enums import Status
from jobs.models import Job, MetadataEntry
from jobs.results import listing
from jobs.results.listing import Filters
from tests.factories import make_account, make_job
from tests.jobs.plans import ENDED, copy_job

pytestmark = pytest.mark.django_db
METADATA = {"a": "1", "b": "", "ü \n😀": "'\"\\\u2028"}


def entries() -> set[tuple[int, int]]:
    """Return the account and job of each entry."""
    return set(MetadataEntry.objects.values_list("account_id", "job_id"))


def found(job: Job, **metadata: str) -> bool:
    """Return whether a job is found by its metadata."""
    page = listing.list_jobs(job.account, before=None, limit=100, filters=Filters(metadata=metadata))
    return job in page.jobs


def end_and_age(*jobs: Job) -> None:
    """Turn jobs into jobs that ended before the retention period."""
    changes = {"status": Status.FAILED, "error_code": "internal", "completed_at": Now(), "credits_consumed": 0}
    created = timezone.now() - timedelta(days=31)
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(created_at=created, **changes)


def test_each_entry_of_a_job_is_stored() -> None:
    job = make_job(metadata=METADATA)
    make_job(metadata={})
    assert MetadataEntry.objects.count() == len(METADATA)
    assert entries() == {(job.account_id, job.pk)}
    assert all(found(job, **{name: value}) for name, value in METADATA.items())


def test_entries_are_removed_with_the_files_of_their_job() -> None:
    client = default_client(make_account())
    expired, kept = [make_job(client, metadata=METADATA) for _ in range(2)], make_job(client, metadata=METADATA)
    end_and_age(*expired)
    assert retention.clear_expired() == 2
    assert entries() == {(client.account_id, kept.pk)}
    assert MetadataEntry.objects.count() == len(METADATA)


def test_entries_are_removed_without_a_scan() -> None:
    job = make_job(metadata={"env": "prod"})
    copy_job(job.pk, 2_000, changes=ENDED)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_metadataentry")
    Job.objects.filter(pk__in=range(job.pk + 1, job.pk + 11)).update(created_at=timezone.now() - timedelta(days=31))
    explainer = Explainer()
    with connection.execute_wrapper(explainer):
        assert retention.clear_expired() == 10
    (plan,) = explainer.plans
    assert "Seq Scan" not in plan
    assert MetadataEntry.objects.count() == 1_991


class Explainer:
    """Collects the plans of the statements that remove entries."""

    def __init__(self) -> None:
        self.plans: list[str] = []

    def __call__(self, execute: Any, sql: str, params: Any, *args: Any) -> Any:
        if "DELETE FROM jobs_metadataentry" in sql:
            with connection.cursor() as cursor:
                cursor.cursor.execute(f"EXPLAIN {sql}", params)
                self.plans.append("\n".join(row[0] for row in cursor.cursor.fetchall()))
        return execute(sql, params, *args)
