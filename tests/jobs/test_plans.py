"""Frequent statements read a bounded number of pages, however many jobs wait or are stored."""

import os
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client as HttpClient
from django.utils import timezone

from jobs.enums import Priority
from jobs.lifecycle import job_moves
from jobs.models import Job
from jobs.operations import last_hour, metrics
from jobs.queue import announcements, claims, forecast, position_samples, sweep
from jobs.queue.position_samples import ExpectedSeconds, PositionSamples
from jobs.results import listing, queries
from tests.factories import make_job
from tests.jobs.plans import ENDED, OVERDUE, PAUSED, copy_job, plan_of, plans_of, reindex_jobs

pytestmark = pytest.mark.django_db

WAITING_JOBS, ENDED_JOBS = 2_000, 2_000
STORED_JOBS = 1_000_000 if "SIMSERVICE_LONG" in os.environ else 20_000


@pytest.fixture
def stored() -> Job:
    """A waiting job of an account with many waiting and many ended jobs."""
    job = make_job(created_at=timezone.now() - timedelta(minutes=1))
    copy_job(job.pk, WAITING_JOBS)
    ended = make_job(job.client)
    copy_job(ended.pk, ENDED_JOBS, changes=ENDED)
    reindex_jobs()
    return job


@pytest.mark.parametrize(
    ("action", "index", "pages"),
    [
        (lambda: job_moves.claim_job("w"), "job_claimable", 200),
        (sweep.recover_expired_leases, "job_held", 20),
        (sweep.end_overdue_waits, "job_deadline", 20),
        (announcements.announce_pending, "job_unannounced", 400),
        (forecast.oldest_wait_seconds, "job_claimable", 200),
    ],
    ids=["claim", "recover_expired_leases", "end_overdue_waits", "announce_pending", "oldest_wait_seconds"],
)
def test_the_queue_is_read_by_an_index(
    stored: Job,
    monkeypatch: pytest.MonkeyPatch,
    action: Callable[[], object],
    index: str,
    pages: int,
) -> None:
    # Not announced, so that the statement of `announce_pending` finds the same jobs again.
    monkeypatch.setattr(announcements, "announce", lambda _: None)
    plan = plans_of(action, table="jobs_job")[0]
    assert index in plan.indexes
    # A claim also looks for shards, whose tables are empty here.
    assert plan.scanned <= {"jobs_shard", "jobs_shardedstage"}
    assert plan.pages <= pages


def test_the_admin_finds_recent_errors_by_an_index(operator: HttpClient) -> None:
    job = make_job()
    copy_job(job.pk, 3_000, changes=ENDED.replace("now()", "now() - n * interval '1 minute'"))
    reindex_jobs()
    address = "/admin/jobs/job/?attention=error&error_code=internal"
    plans = plans_of(lambda: operator.get(address), table="jobs_job")
    assert len(plans) == 2
    assert all("job_ended" in plan.indexes and plan.pages <= 300 for plan in plans)


NAME_ENDED_JOBS = """
    UPDATE jobs_job SET given_title = 'Raid ' || n, character = 'Somebody ' || n
    FROM (SELECT id, row_number() OVER () n FROM jobs_job) numbered
    WHERE numbered.id = jobs_job.id AND completed_at IS NOT NULL
"""


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("start", ["raid 17", "SOMEBODY 17"])
def test_titles_and_characters_are_found_by_indexes(start: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(NAME_ENDED_JOBS)
        cursor.execute("ANALYZE jobs_job")
    reindex_jobs()
    (plan,) = plans_of(lambda: queries.find_by_title(start, limit=11), table="jobs_job")
    assert plan.indexes == {"job_by_title", "job_by_any_character", "job_held"}
    assert plan.scanned == set()
    assert plan.pages <= 400
    assert len(queries.find_by_title("raid", limit=11)) == 11


@pytest.mark.usefixtures("stored")
def test_the_last_hour_is_read_by_an_index() -> None:
    old = make_job()
    copy_job(old.pk, 15_000, changes=ENDED.replace("now()", "now() - interval '2 hours'"))
    reindex_jobs()
    for read in (last_hour.read, last_hour.builds, lambda: last_hour.accounts(limit=10)):
        for plan in plans_of(read, table="jobs_job"):
            assert plan.indexes <= {"job_ended", "job_active"}
            assert plan.scanned == set()


def test_waiting_jobs_are_counted_up_to_a_batch(stored: Job) -> None:
    (plan,) = plans_of(announcements.replenish, table="jobs_job")
    assert plan.indexes == {"job_claimable"}
    assert plan.pages <= announcements.SWEEP_BATCH + 10


def test_a_claim_does_not_read_the_jobs_of_other_lanes(stored: Job) -> None:
    """A worker consumes the lanes for high and background jobs while standard jobs wait."""
    Job.objects.update(priority=Priority.STANDARD)
    background = make_job(stored.client, priority=Priority.BACKGROUND)
    reindex_jobs()
    lanes = [Priority.HIGH, Priority.BACKGROUND]
    plans = plans_of(lambda: claims.claim_work("w", lanes=lanes), table="jobs_job")
    assert Job.objects.get(pk=background.pk).worker == "w"
    # The first ids, and two claims
    assert len(plans) == 3
    assert all("job_claimable" in plan.indexes and plan.pages <= 200 for plan in plans)


def test_a_claim_skips_overdue_jobs_in_order(stored: Job) -> None:
    copy_job(stored.pk, 500, changes=OVERDUE, step=-1)
    plan = plans_of(lambda: job_moves.claim_job("w"), table="jobs_job")[0]
    assert "job_claimable" in plan.indexes
    # At most one page of the table for each of the skipped jobs.
    assert plan.pages <= 500 + 50


def test_a_claim_does_not_read_paused_jobs(stored: Job) -> None:
    copy_job(stored.pk, 500, changes=PAUSED, step=-1)
    plan = plans_of(lambda: job_moves.claim_job("w"), table="jobs_job")[0]
    assert "job_claimable" in plan.indexes
    assert plan.pages <= 50


def test_marks_read_no_more_than_a_part_of_the_queue(stored: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_samples, "FRONT_JOBS", 300)
    monkeypatch.setattr(position_samples, "PART_JOBS", 700)
    middle = PositionSamples(read_to=(1, stored.pk + WAITING_JOBS // 2))
    with connection.cursor() as cursor:
        # The index is the cheapest way only after a vacuum, which a transaction cannot run.
        cursor.execute("SET LOCAL enable_sort = off")
    plans = plans_of(lambda: position_samples.read(middle, ExpectedSeconds([1.0], 1.0)), table="jobs_job")
    assert [plan.indexes for plan in plans] == [{"job_claimable"}] * 2
    assert {kind for plan in plans for kind, table, _ in plan.nodes if table} == {"Index Only Scan"}
    # At most one page of the table for each job, because nothing is vacuumed.
    assert [plan.pages <= jobs + 30 for plan, jobs in zip(plans, (300, 700), strict=True)] == [True, True]


@pytest.mark.timeout(1800)
def test_a_scrape_of_the_metrics_reads_no_ended_job() -> None:
    """With SIMSERVICE_LONG=1, a million jobs have ended."""
    job, ended = make_job(), make_job()
    copy_job(job.pk, 100, step=-1)
    copy_job(ended.pk, STORED_JOBS, changes=ENDED)
    reindex_jobs()
    plans = plans_of(metrics._database_metrics, table="jobs_job")
    assert len(plans) >= 6
    assert not any("jobs_job" in plan.scanned for plan in plans)
    assert max(plan.pages for plan in plans) < 150


@pytest.mark.parametrize(
    ("read", "pages"),
    [
        (lambda job: listing.list_jobs(job.account, before=None, limit=26), 40),
        (lambda job: listing.list_jobs(job.account, before=job.pk + 50, limit=26), 40),
        (lambda job: queries.find_job(job.account, str(job.pk)), 20),
    ],
    ids=["newest", "older", "one"],
)
def test_jobs_of_an_account_are_read_by_an_index(stored: Job, read: Callable[[Job], object], pages: int) -> None:
    (plan,) = plans_of(lambda: read(stored), table="jobs_job")
    assert plan.indexes & {"job_by_account", "jobs_job_pkey"}
    assert "jobs_job" not in plan.scanned
    assert plan.pages <= pages


def test_a_sequential_scan_is_noticed(stored: Job) -> None:
    plan = plan_of("SELECT * FROM jobs_job WHERE metadata = 'x'")
    assert plan.scanned == {"jobs_job"}
    assert plan.pages > 100
