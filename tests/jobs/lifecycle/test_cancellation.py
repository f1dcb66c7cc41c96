"""Cancellation in every status: repeated, concurrent, and without a worker or Redis."""

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings
from redis.exceptions import RedisError

from clients.audit import SYSTEM
from jobs.enums import TERMINAL, Status
from jobs.errors import JobAlreadyEnded
from jobs.execution import attempt
from jobs.lifecycle import cancellation, job_moves
from jobs.lifecycle.cancellation import Cancellation, cancel
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Job, JobEvent, Run
from jobs.queue import sweep
from tests.concurrency import at_once
from tests.factories import make_job, make_running_job
from tests.jobs.simulators import LEAVE_REPORT, RUN_UNTIL_INTERRUPTED, claim, make_stand_in, run_with_action

pytestmark = pytest.mark.django_db(transaction=True)

DONE = Outcome(status=Status.COMPLETED, summary={"metric": "dps"}, sim_duration_ms=1500, credits_consumed=64)


def fresh(job: Job) -> Job:
    """Return the job, read again from the database."""
    return Job.objects.get(pk=job.pk)


def lose_lease(job: Job) -> None:
    """Expire a job's lease."""
    Job.objects.filter(pk=job.pk).update(lease_expires_at=timezone.now() - timedelta(seconds=1))


@pytest.mark.parametrize("status", [Status.PENDING, Status.QUEUED])
def test_a_waiting_job_is_cancelled_at_once(status: Status) -> None:
    job = make_job(status=status)
    assert cancel(job, by=SYSTEM) == Cancellation(job_id=job.pk, requested_at=None)
    cancelled = fresh(job)
    assert (cancelled.status, cancelled.error_code, cancelled.credits_consumed) == (
        "cancelled",
        "user_cancelled",
        0,
    )
    assert "Nothing is billed" in str(cancelled.status_reason)
    assert job_moves.claim_job("w") is None


@pytest.mark.parametrize("status", [Status.STARTING, Status.RUNNING])
def test_a_claimed_job_is_marked_and_keeps_its_status(status: Status) -> None:
    job = make_running_job()
    Job.objects.filter(pk=job.pk).update(status=status)
    result = cancel(job, by=SYSTEM)
    marked = fresh(job)
    assert marked.status == status
    assert result.requested_at == marked.cancel_requested_at is not None
    assert cancellation.is_hinted(job)


def test_repeated_cancels_follow_the_job() -> None:
    waiting, running = make_job(), make_running_job()
    cancellations = [cancel(waiting, by=SYSTEM), cancel(running, by=SYSTEM)]
    assert [cancel(waiting, by=SYSTEM), cancel(running, by=SYSTEM)] == cancellations
    job_moves.finish(fresh(running), job_moves.CANCELLED)
    assert cancel(running, by=SYSTEM) == Cancellation(job_id=running.pk, requested_at=None)


def test_an_ended_job_cannot_be_cancelled() -> None:
    job = make_running_job()
    cancel(job, by=SYSTEM)
    job_moves.finish(job, DONE)
    with pytest.raises(JobAlreadyEnded) as raised:
        cancel(job, by=SYSTEM)
    assert (raised.value.job_id, raised.value.status) == (job.pk, "completed")


def test_cancel_works_without_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RedisError

    monkeypatch.setattr(cancellation, "redis", fail)
    job = make_running_job()
    assert cancel(job, by=SYSTEM).requested_at
    assert not cancellation.is_hinted(job)


def test_a_hundred_concurrent_cancels_count_once() -> None:
    jobs = [make_job(), make_running_job()]
    cancellations: list[Cancellation] = []
    for job in jobs:
        at_once(25, lambda job=job: cancellations.append(cancel(job, by=SYSTEM)))  # type: ignore[misc]
    assert len(set(cancellations)) == 2
    assert JobEvent.objects.filter(job=jobs[0], to_status=Status.CANCELLED).count() == 1


def claimed(job: Job) -> None:
    job_moves.claim_job("w")


def completed(job: Job) -> None:
    job_moves.finish(fresh(job), DONE)


def recovered(job: Job) -> None:
    sweep.recover_expired_leases()


@pytest.mark.parametrize(
    ("other", "make"),
    [(claimed, make_job), (completed, make_running_job), (recovered, make_running_job)],
    ids=["claim", "completion", "hand-back"],
)
def test_a_cancel_racing_with_an_end_leaves_one_end(other: Callable[[Job], None], make: Callable[[], Job]) -> None:
    for _ in range(20):
        job = make()
        if other is recovered:
            lose_lease(job)
        actions = [lambda job=job: other(job), lambda job=job: quietly_cancel(job)]
        at_once(2, lambda actions=actions: actions.pop()())  # type: ignore[misc]
        current = fresh(job)
        assert current.is_terminal or current.cancel_requested_at
        assert not (current.status == "queued" and current.cancel_requested_at)
        assert JobEvent.objects.filter(job=job, to_status__in=TERMINAL).count() == int(current.is_terminal)
        Job.objects.filter(pk=job.pk).delete()


def quietly_cancel(job: Job) -> None:
    """Cancel the job unless it is too late."""
    try:
        cancel(job, by=SYSTEM)
    except JobAlreadyEnded:
        assert fresh(job).status == "completed"


@pytest.mark.parametrize("max_attempts", [2, 1], ids=["attempts left", "attempts spent"])
def test_a_cancelled_job_of_a_lost_worker_is_not_retried(max_attempts: int, settings: Settings) -> None:
    settings.MAX_ATTEMPTS = max_attempts
    job = make_running_job()
    cancel(job, by=SYSTEM)
    lose_lease(job)
    assert sweep.recover_expired_leases() == 1
    cancelled = fresh(job)
    assert (cancelled.status, cancelled.error_code, cancelled.credits_consumed) == (
        "cancelled",
        "user_cancelled",
        0,
    )


def test_a_cancel_request_after_the_last_check_is_honored() -> None:
    job = make_running_job()
    lose_lease(job)
    stale = fresh(job)
    cancel(job, by=SYSTEM)
    assert sweep.recover(stale)
    assert fresh(job).status == "cancelled"


def test_a_job_cancelled_before_its_start_runs_nothing(tmp_path: Path) -> None:
    make_stand_in(tmp_path, LEAVE_REPORT)
    make_job()
    job = claim()
    cancel(job, by=SYSTEM)
    attempt.execute(job)
    cancelled = fresh(job)
    assert (cancelled.status, cancelled.error_code, cancelled.credits_consumed) == (
        "cancelled",
        "user_cancelled",
        0,
    )
    assert not Run.objects.exists()


def test_a_cancelled_running_job_keeps_and_bills_partial_results(tmp_path: Path) -> None:
    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED)
    job = run_with_action(partial(cancel, by=SYSTEM))
    assert (job.status, job.error_code) == ("cancelled", "user_cancelled")
    assert job.summary is not None
    assert job.summary["partial"] is True
    assert job.sim_duration_ms is not None
    assert 0 < job.sim_duration_ms < 10_000
    assert job.credits_consumed == -(-job.sim_duration_ms // 1000) * 32
    assert Artifact.objects.filter(job=job, kind="json_report").exists()
    assert Run.objects.get(job=job).stopped_for == "cancelled"


def test_lease_renewal_finds_the_cancel_when_redis_is_empty(tmp_path: Path, settings: Settings) -> None:
    settings.HEARTBEAT_SECONDS = 0.2

    def unhinted(job: Job) -> None:
        job_moves.request_cancel(job)

    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED)
    assert run_with_action(unhinted).status == "cancelled"


def test_the_redis_hint_cancels_before_the_next_renewal(tmp_path: Path, settings: Settings) -> None:
    settings.HEARTBEAT_SECONDS, settings.LEASE_SECONDS = 60, 90
    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED)
    job = run_with_action(partial(cancel, by=SYSTEM))
    assert job.status == "cancelled"
    assert job.sim_duration_ms is not None
    assert job.sim_duration_ms < 10_000


def test_a_hint_without_a_cancel_request_stops_nothing(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"time.sleep(2.5)\n{LEAVE_REPORT}")
    assert run_with_action(cancellation.hint).status == "completed"


def test_a_simulator_that_ignores_the_stop_is_killed(tmp_path: Path) -> None:
    make_stand_in(tmp_path, "signal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(60)")
    job = run_with_action(partial(cancel, by=SYSTEM))
    assert (job.status, job.simulator_exit_code, job.summary) == ("cancelled", "SIGKILL", None)


def test_no_thread_outlives_the_attempt(tmp_path: Path) -> None:
    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED)
    job = run_with_action(partial(cancel, by=SYSTEM))
    assert f"watcher-{job.pk}" not in {thread.name for thread in threading.enumerate()}
