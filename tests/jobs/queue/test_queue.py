"""Claims and the sweep, also from concurrent connections."""

import itertools
import random
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from jobs.enums import Priority, Status
from jobs.lifecycle import job_moves
from jobs.models import Job, JobEvent
from jobs.queue import announcements, claims, sweep
from jobs.results.queries import active_jobs
from tests.concurrency import at_once
from tests.factories import make_job, make_running_job
from tests.jobs.plans import plans_of, reindex_jobs

ENDED_JOBS = """
    INSERT INTO jobs_job SELECT copy.*
    FROM jobs_job AS job, generate_series(1, 3000) AS n, jsonb_populate_record(job, jsonb_build_object(
        'id', job.id + n, 'share_token', n::text, 'status', 'failed', 'error_code', 'internal',
        'completed_at', now(), 'credits_consumed', 0)) AS copy
"""


@pytest.mark.django_db
def test_jobs_are_claimed_by_priority_and_then_by_submission() -> None:
    lanes = random.Random(7).choices(Priority.values, k=60)  # noqa: S311
    jobs = [make_job(priority=lane) for lane in lanes]
    claimed = [job_moves.claim_job("w") for _ in jobs]
    expected = sorted(jobs, key=lambda job: (job.priority, job.pk))
    assert [job.pk for job in claimed if job] == [job.pk for job in expected]
    assert job_moves.claim_job("w") is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    "lanes", [subset for size in range(4) for subset in itertools.combinations(Priority, size)], ids=str
)
def test_a_worker_claims_only_jobs_of_its_lanes(lanes: tuple[Priority, ...]) -> None:
    jobs = {lane: make_job(priority=lane) for lane in reversed(Priority)}
    for lane in lanes:
        assert claims.claim_work("w", lanes=lanes) == jobs[lane]
    assert claims.claim_work("w", lanes=lanes) is None


@pytest.mark.django_db
def test_a_claim_takes_a_lease_and_counts_the_attempt() -> None:
    make_job()
    job = job_moves.claim_job("worker-1")
    assert job is not None
    job.refresh_from_db()
    assert (job.status, job.attempt, job.worker) == ("starting", 1, "worker-1")
    assert job.lease_expires_at is not None
    assert 10 < (job.lease_expires_at - timezone.now()).total_seconds() <= 15


@pytest.mark.django_db
def test_a_job_past_its_queue_deadline_is_not_started() -> None:
    make_job(queue_deadline_at=timezone.now() - timedelta(seconds=1))
    assert job_moves.claim_job("w") is None


@pytest.mark.django_db(transaction=True)
def test_claims_at_the_same_moment_get_different_jobs() -> None:
    jobs = {make_job().pk for _ in range(20)}
    claimed: list[int] = []

    def work() -> None:
        while job := job_moves.claim_job("w"):
            claimed.append(job.pk)

    at_once(6, work)
    assert sorted(claimed) == sorted(jobs)
    assert JobEvent.objects.filter(to_status=Status.STARTING).count() == 20


@pytest.mark.django_db(transaction=True)
def test_a_claim_does_not_wait_for_a_locked_job() -> None:
    first, second = make_job(), make_job()
    locked, release = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Job.objects.select_for_update().get(pk=first.pk)
            locked.set()
            release.wait(10)
        connection.close()

    blocker = threading.Thread(target=hold)
    blocker.start()
    locked.wait(10)
    claimed = job_moves.claim_job("w")
    release.set()
    blocker.join()
    assert claimed is not None
    assert claimed.pk == second.pk


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("action", "index"),
    [
        (lambda: job_moves.claim_job("w"), "job_claimable"),
        (sweep.recover_expired_leases, "job_held"),
        (sweep.end_overdue_waits, "job_deadline"),
        (announcements.announce_pending, "job_unannounced"),
        (lambda: active_jobs(Job.objects.earliest("id").account), "job_active"),
    ],
)
def test_frequent_queries_use_partial_indexes(action: Callable[[], object], index: str) -> None:
    make_job()
    with connection.cursor() as cursor:
        # Enough ended jobs to make a sequential scan expensive.
        cursor.execute(ENDED_JOBS)
        cursor.execute("ANALYZE jobs_job")
    reindex_jobs()
    # If the job is found, a statement that moves it follows.
    assert any(index in plan.indexes for plan in plans_of(action, table="jobs_job"))


@pytest.mark.django_db
def test_the_sweep_announces_unannounced_jobs() -> None:
    job = make_job(created_at=timezone.now() - timedelta(minutes=1))
    fresh = make_job()
    sweep.sweep()
    assert Job.objects.get(pk=job.pk).status == Status.QUEUED
    assert Job.objects.get(pk=fresh.pk).status == Status.PENDING


def lose_lease(job: Job) -> None:
    """Expire the lease of a job."""
    Job.objects.filter(pk=job.pk).update(lease_expires_at=Now() - timedelta(seconds=1))


@pytest.mark.django_db
def test_a_lost_job_is_requeued_and_retried() -> None:
    job = make_running_job()
    lose_lease(job)
    sweep.sweep()
    job.refresh_from_db()
    assert (job.status, job.attempt, job.retried) == ("queued", 1, True)
    assert [(run.wall_ms, run.stopped_for, bool(run.ended_at)) for run in job.runs.all()] == [(None, "lost", True)]
    again = job_moves.claim_job("worker-2")
    assert again is not None
    assert (again.pk, again.attempt, again.retried) == (job.pk, 2, True)


@pytest.mark.django_db
def test_a_lost_job_goes_before_later_ones() -> None:
    lost = make_running_job()
    make_job()
    lose_lease(lost)
    sweep.sweep()
    claimed = job_moves.claim_job("w")
    assert claimed is not None
    assert claimed.pk == lost.pk


@pytest.mark.django_db
def test_a_job_lost_three_times_is_interrupted() -> None:
    job = make_running_job()
    Job.objects.filter(pk=job.pk).update(attempt=3)
    lose_lease(job)
    sweep.sweep()
    job.refresh_from_db()
    assert (job.status, job.error_code, job.credits_consumed) == ("failed", "execution_interrupted", 0)


@pytest.mark.django_db
def test_a_lease_renewed_in_time_is_not_recovered() -> None:
    job = make_running_job()
    # The worker renewed the lease between the sweep's read and write.
    assert not sweep.recover(Job.objects.get(pk=job.pk))
    assert sweep.sweep()["recovered"] == 0
    assert Job.objects.get(pk=job.pk).status == Status.RUNNING


@pytest.mark.django_db
def test_a_job_past_its_queue_deadline_fails_without_charge() -> None:
    job = make_job(queue_deadline_at=timezone.now() - timedelta(seconds=1))
    sweep.sweep()
    job.refresh_from_db()
    assert (job.status, job.error_code, job.credits_consumed) == ("failed", "queue_timeout", 0)
    assert job.started_at is None


@pytest.mark.django_db
def test_a_retried_job_that_waits_too_long_is_interrupted() -> None:
    job = make_running_job()
    job_moves.requeue(job, reason="lost")
    Job.objects.filter(pk=job.pk).update(queue_deadline_at=timezone.now() - timedelta(seconds=1))
    sweep.sweep()
    job.refresh_from_db()
    assert job.error_code == "execution_interrupted"


@pytest.mark.django_db
def test_a_returned_job_that_never_ran_times_out() -> None:
    job = make_job()
    job_moves.requeue(job_moves.claim_job("w") or job, reason="lost")
    Job.objects.filter(pk=job.pk).update(queue_deadline_at=timezone.now() - timedelta(seconds=1))
    sweep.sweep()
    job.refresh_from_db()
    assert (job.error_code, job.credits_consumed) == ("queue_timeout", 0)


@pytest.mark.django_db(transaction=True)
def test_a_locked_job_does_not_delay_the_sweep_of_others() -> None:
    stuck, lost = make_running_job(), make_running_job()
    lose_lease(stuck)
    lose_lease(lost)
    locked, done = threading.Event(), threading.Event()

    def stand_still() -> None:
        with transaction.atomic():
            Job.objects.select_for_update().get(pk=stuck.pk)
            locked.set()
            done.wait(20)
        connection.close()

    thread = threading.Thread(target=stand_still)
    thread.start()
    assert locked.wait(5)
    assert sweep.recover_expired_leases() == 1
    done.set()
    thread.join()
    assert Job.objects.get(pk=lost.pk).status == "queued"
    assert sweep.recover_expired_leases() == 1


@pytest.mark.django_db(transaction=True)
def test_two_sweeps_at_once_recover_each_job_once() -> None:
    jobs = [make_running_job() for _ in range(10)]
    for job in jobs:
        lose_lease(job)
    counts: list[int] = []
    at_once(3, lambda: counts.append(sweep.recover_expired_leases()))
    assert sum(counts) == 10
    assert JobEvent.objects.filter(from_status="running", to_status="queued").count() == 10
