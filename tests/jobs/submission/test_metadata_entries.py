"""Metadata entries are stored with a job, also by the previous version, and removed after its retention."""

from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.models.functions import Now
from django.utils import timezone

from clients.accounts import default_client
from jobs.artifacts import retention
from jobs.enums import Status
from jobs.models import Job, MetadataEntry
from jobs.results import listing
from jobs.results.listing import Filters
from simservice.ids import first_id_of, next_id
from tests.factories import make_account, make_job
from tests.jobs.plans import ENDED, copy_job

pytestmark = pytest.mark.django_db
BACKFILL = import_module("jobs.migrations.0024_earlier_metadata_entries")
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


def test_jobs_of_the_previous_version_are_found() -> None:
    job = make_job()
    before = MigrationLoader(connection).project_state([("jobs", "0022_job_ranking")]).apps
    old = before.get_model("jobs", "Job").objects.get(pk=job.pk)
    old.pk, old.share_token, old.metadata = next_id(), "another", METADATA
    old.save(force_insert=True)
    assert found(Job.objects.get(pk=old.pk), **METADATA)


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


def backfill(monkeypatch: pytest.MonkeyPatch, *, batch: int) -> int:
    """Run the data migration; return the number of its batches."""
    monkeypatch.setattr(BACKFILL, "BATCH", batch)
    counter = Counter()
    with connection.schema_editor() as editor, connection.execute_wrapper(counter):
        BACKFILL.add_entries(None, editor)
    return counter.count


def test_entries_of_earlier_jobs_are_added_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [make_job(metadata=METADATA | {"n": str(number)}) for number in range(5)]
    expected = set(MetadataEntry.objects.values_list("pk"))
    MetadataEntry.objects.exclude(job_id=jobs[3].pk).delete()
    assert backfill(monkeypatch, batch=2) == 3
    assert set(MetadataEntry.objects.values_list("pk")) == expected
    assert backfill(monkeypatch, batch=5) == 2
    assert set(MetadataEntry.objects.values_list("pk")) == expected


def test_expired_jobs_get_no_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    make_job(id=first_id_of(timezone.now() - timedelta(days=31)), metadata=METADATA)
    cleared, kept = make_job(metadata=METADATA), make_job(metadata=METADATA)
    end_and_age(cleared)
    Job.objects.filter(pk=cleared.pk).update(cleared_at=Now())
    MetadataEntry.objects.all().delete()
    backfill(monkeypatch, batch=1)
    assert entries() == {(kept.account_id, kept.pk)}


def test_the_backfill_ends_without_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert backfill(monkeypatch, batch=2) == 1


class Counter:
    """Counts the statements that add entries."""

    count = 0

    def __call__(self, execute: Any, sql: str, *args: Any) -> Any:
        self.count += "jobs_metadataentry" in sql
        return execute(sql, *args)


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
