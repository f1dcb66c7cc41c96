"""Pause and resume of jobs in every state: repeated, at once, and with lost attempts and cancellations."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from billing import ledger
from billing.models import Balance, Hold
from clients.audit import SYSTEM
from clients.models import AuditEvent
from jobs.artifacts import credentials
from jobs.artifacts.credentials import GameCredentials
from jobs.enums import TERMINAL, ReturnCause, Status
from jobs.errors import AccountSuspended, CreditsMissing, JobNotPausable, JobPaused, PauseLimitReached
from jobs.execution import attempt
from jobs.execution.lease import Lease
from jobs.lifecycle import job_moves
from jobs.lifecycle.cancellation import cancel
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job, JobEvent, Run
from jobs.queue import announcements, forecast, pausing, sweep
from jobs.queue.pausing import MAX_PAUSES
from jobs.submission.priority_fee import buys_earlier_start
from simservice.redis.client import redis
from tests.concurrency import at_once
from tests.factories import make_job, make_running_job
from tests.jobs.simulators import LEAVE_REPORT, RUN_UNTIL_INTERRUPTED, claim, make_stand_in, run_with_action

pytestmark = pytest.mark.django_db(transaction=True)

DONE = Outcome(status=Status.COMPLETED, summary={"metric": "dps"}, sim_duration_ms=1500, credits_consumed=64)


def fresh(job: Job) -> Job:
    """Return the job, read again from the database."""
    return Job.objects.get(pk=job.pk)


def pause(job: Job) -> Job:
    return pausing.pause(job, by=SYSTEM)


def resume(job: Job) -> Job:
    return pausing.resume(job, by=SYSTEM)


def causes(job: Job) -> list[str]:
    """Return the causes in the job's history."""
    return [
        cause for cause in JobEvent.objects.filter(job=job).order_by("pk").values_list("cause", flat=True) if cause
    ]


def lose_lease(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(lease_expires_at=timezone.now() - timedelta(seconds=1))


def overdue(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(queue_deadline_at=timezone.now() - timedelta(seconds=1))


def spend_all(job: Job, *, but: int = 0) -> None:
    """Take the available credits of a job's account."""
    ledger.correct(job.account, but - ledger.available(job.account), reason="spent elsewhere")


@pytest.mark.parametrize("status", [Status.PENDING, Status.QUEUED])
def test_a_waiting_job_is_paused_at_once_and_not_claimed(status: Status) -> None:
    job = make_job(status=status)
    paused = pause(job)
    assert (paused.status, paused.is_paused, causes(job)) == ("queued", True, ["paused"])
    assert job_moves.claim_job("w") is None
    assert resume(job).paused_at is None
    assert job_moves.claim_job("w") is not None
    assert causes(job) == ["paused", "resumed"]


def test_a_paused_job_is_not_counted_as_waiting() -> None:
    job = make_job()
    pause(job)
    forecast.publish()
    snapshot = forecast.current()
    assert snapshot is not None
    assert (snapshot.length, sum(snapshot.waiting.values())) == (0, 0)
    assert announcements.replenish() == announcements.announce_pending() == 0
    assert not buys_earlier_start(live_slots=0)
    assert forecast.estimated_start(fresh(job)) is None


def test_a_resumed_job_returns_to_its_place() -> None:
    first, second = make_job(), make_job()
    pause(first)
    resume(first)
    assert [claim().pk, claim().pk] == [first.pk, second.pk]


def test_a_pause_wakes_nobody_and_a_resume_wakes_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[int] = []
    monkeypatch.setattr(announcements, "wake_one", woken.append)
    job = make_job()
    pause(job)
    assert not woken
    resume(job)
    resume(job)
    assert woken == [job.priority]


def test_each_wait_has_a_new_queue_limit() -> None:
    job = make_job(ceiling_queue_seconds=3600)
    overdue(job)
    deadlines = [pause(job).queue_deadline_at, resume(job).queue_deadline_at]
    assert timezone.now() < deadlines[0] < deadlines[1]


@pytest.mark.parametrize("status", [Status.STARTING, Status.RUNNING])
def test_the_pause_of_a_claimed_job_is_requested_once(status: Status) -> None:
    job = make_running_job()
    Job.objects.filter(pk=job.pk).update(status=status)
    first, second = pause(job), pause(job)
    assert first.pause_requested_at == second.pause_requested_at is not None
    assert (second.status, second.is_paused) == (status, False)
    assert job_moves.renew_lease(job).name == "PAUSE_REQUESTED"


def test_a_request_can_be_withdrawn() -> None:
    job = make_running_job()
    pause(job)
    assert resume(job).pause_requested_at is None
    assert job_moves.renew_lease(job).name == "DONE"
    assert job_moves.requeue(job, reason="noticed too late", cause=ReturnCause.RETURNED)
    assert not fresh(job).is_paused


def test_pauses_at_once_count_once() -> None:
    for job in (make_job(), make_running_job()):
        results: list[Any] = []
        at_once(20, lambda job=job, results=results: results.append(pause(job)))  # type: ignore[misc]
        assert len({(each.paused_at, each.pause_requested_at) for each in results}) == 1
        assert AuditEvent.objects.filter(target_id=job.pk).count() == 1
    assert JobEvent.objects.filter(cause=ReturnCause.PAUSED).count() == 1


@pytest.mark.parametrize("change", [pause, resume])
def test_an_ended_job_is_refused(change: Callable[[Job], Job]) -> None:
    job = make_running_job()
    job_moves.finish(job, DONE)
    with pytest.raises(JobNotPausable) as raised:
        change(job)
    assert (raised.value.job_id, raised.value.status) == (job.pk, "completed")


@pytest.mark.parametrize("change", [pause, resume])
def test_a_job_that_is_being_cancelled_is_refused(change: Callable[[Job], Job]) -> None:
    job = make_running_job()
    cancel(job, by=SYSTEM)
    with pytest.raises(JobNotPausable):
        change(job)


def test_a_job_can_be_paused_so_many_times() -> None:
    job = make_job()
    for _ in range(MAX_PAUSES):
        pause(job)
        resume(job)
    with pytest.raises(PauseLimitReached):
        pause(job)


def test_a_cancelled_paused_job_ends_at_once_and_free() -> None:
    job = make_job()
    pause(job)
    cancel(job, by=SYSTEM)
    ended = fresh(job)
    assert (ended.status, ended.credits_consumed, ended.is_paused) == ("cancelled", 0, False)
    assert ended.status_reason == job_moves.CANCELLED.reason


def test_a_resume_racing_with_a_cancellation_leaves_one_end() -> None:
    for _ in range(10):
        job = make_job()
        pause(job)
        actions = [lambda job=job: cancel(job, by=SYSTEM), lambda job=job: quietly(resume, job)]
        at_once(2, lambda actions=actions: actions.pop()())  # type: ignore[misc]
        assert fresh(job).status == "cancelled"
        assert JobEvent.objects.filter(job=job, to_status__in=TERMINAL).count() == 1
    assert list(ledger.verify()) == []


@pytest.mark.parametrize("other", [claim, lambda: sweep.recover_expired_leases()], ids=["claim", "lost lease"])
def test_a_pause_racing_with_a_move_is_never_forgotten(other: Callable[[], object]) -> None:
    for _ in range(10):
        job = make_job() if other is claim else make_running_job()
        if other is not claim:
            lose_lease(job)
        actions = [lambda job=job: quietly(lambda _: other(), job), lambda job=job: pause(job)]
        at_once(2, lambda actions=actions: actions.pop()())  # type: ignore[misc]
        current = fresh(job)
        assert current.is_paused or (current.lease_expires_at and current.pause_requested_at)
        Job.objects.filter(pk=job.pk).delete()


def quietly(change: Callable[[Job], object], job: Job) -> None:
    """Change a job unless another change was first."""
    with suppress(JobNotPausable, AssertionError):
        change(job)


def test_a_lost_attempt_returns_the_job_paused_and_counts_as_lost() -> None:
    job = make_running_job()
    pause(job)
    lose_lease(job)
    assert sweep.recover_expired_leases() == 1
    assert fresh(job).is_paused
    assert causes(job) == ["lost", "paused"]


def test_an_attempt_that_ends_before_it_notices_ends_the_job() -> None:
    job = make_running_job()
    pause(job)
    assert job_moves.finish(job, DONE)
    assert not fresh(job).is_paused


def test_the_queue_limit_ends_a_paused_job_for_free() -> None:
    job = make_running_job()
    pause(job)
    job_moves.requeue(job, reason="paused", cause=ReturnCause.RETURNED)
    overdue(job)
    assert sweep.end_overdue_waits() == 1
    ended = fresh(job)
    assert (ended.status, ended.error_code, ended.credits_consumed) == ("failed", "queue_timeout", 0)
    assert "paused for longer than its queue limit" in str(ended.status_reason)


def test_a_running_job_is_paused_and_runs_again(tmp_path: Path) -> None:
    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED)
    job = run_with_action(pause)
    assert (job.is_paused, job.worker, job.build_id, causes(job)) == (True, "", None, ["returned", "paused"])
    assert Run.objects.get(job=job).stopped_for == "lost"
    make_stand_in(tmp_path, LEAVE_REPORT)
    resume(job)
    attempt.execute(claim())
    ended = fresh(job)
    assert (ended.status, ended.attempt) == ("completed", 2)
    assert list(ledger.verify()) == []


def test_a_pause_while_the_job_starts_is_noticed(tmp_path: Path, settings: Settings) -> None:
    settings.HEARTBEAT_SECONDS = 0.2
    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED)
    make_job()
    job = claim()
    pause(job)
    attempt.execute(job)
    assert fresh(job).is_paused


def test_a_pause_is_noticed_when_redis_is_empty(tmp_path: Path, settings: Settings) -> None:
    settings.HEARTBEAT_SECONDS = 0.2
    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED)
    assert run_with_action(job_moves.request_pause).is_paused


def test_a_cancellation_after_a_pause_wins(tmp_path: Path) -> None:
    def pause_then_cancel(job: Job) -> None:
        job_moves.request_pause(job)
        cancel(job, by=SYSTEM)

    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED)
    assert run_with_action(pause_then_cancel).status == "cancelled"


def test_a_cancellation_comes_before_a_pause_that_was_noticed_first() -> None:
    lease = Lease(make_running_job())
    lease.paused.set()
    with pytest.raises(JobPaused):
        lease.require_unpaused()
    lease.cancelled.set()
    lease.require_unpaused()


def test_a_second_move_changes_nothing() -> None:
    job = make_job(status=Status.QUEUED)
    first, second = fresh(job), fresh(job)
    assert [bool(job_moves.pause(each)) for each in (first, second)] == [True, False]
    assert [bool(job_moves.resume(each)) for each in (first, second)] == [True, False]


def test_a_resume_reserves_nothing_if_nothing_was_released() -> None:
    job = make_job(max_credits=1, ceiling_credits=1)
    pause(job)
    assert not resume(job).is_paused
    assert held(job) == (1, 1)


def held(job: Job) -> tuple[int, int]:
    """Return the credits that the job holds, and those that its account has reserved."""
    return Hold.objects.get(pk=job.pk).credits, Balance.objects.get(pk=job.account_id).reserved


@pytest.mark.parametrize(("fee", "kept"), [(0, 1), (320, 320)])
def test_a_pause_keeps_the_fee_and_a_resume_reserves_a_slice(fee: int, kept: int) -> None:
    job = make_job(priority_fee_credits=fee, max_credits=None, ceiling_credits=57_600, credits_per_second=32)
    pause(job)
    assert held(job) == (kept, kept)
    resume(job)
    assert held(job) == (kept + 60 * 32, kept + 60 * 32)
    assert list(ledger.verify()) == []


def test_a_resume_of_a_capped_job_reserves_its_whole_cap() -> None:
    job = make_job(max_credits=6400, ceiling_credits=6400)
    pause(job)
    spend_all(job, but=6398)
    with pytest.raises(CreditsMissing) as raised:
        resume(job)
    assert (raised.value.required_credits, raised.value.affordable_credits) == (6399, 6398)
    assert fresh(job).is_paused
    ledger.correct(job.account, 1, reason="one more")
    resume(job)
    assert held(job) == (6400, 6400)


def test_a_resume_takes_what_the_account_has() -> None:
    job = make_job(max_credits=None, ceiling_credits=57_600, credits_per_second=32)
    pause(job)
    spend_all(job, but=31)
    with pytest.raises(CreditsMissing):
        resume(job)
    ledger.correct(job.account, 9, reason="some more")
    resume(job)
    assert held(job) == (41, 41)


def test_a_suspended_account_cannot_resume() -> None:
    job = make_job()
    pause(job)
    job.account.suspended_at = timezone.now()
    job.account.save(update_fields=["suspended_at"])
    with pytest.raises(AccountSuspended):
        resume(job)
    assert fresh(job).is_paused


def test_game_credentials_are_kept_while_a_job_is_paused() -> None:
    job = make_job(has_credentials=True, ceiling_queue_seconds=3600, ceiling_runtime_seconds=600)
    pair = GameCredentials(client_id="a" * 32, client_secret="b" * 32)
    credentials.store(job.pk, pair, seconds=1)
    for change in (pause, resume):
        redis().expire(credentials.key_of(job.pk), 5)
        change(job)
        assert int(str(redis().ttl(credentials.key_of(job.pk)))) > 4000
