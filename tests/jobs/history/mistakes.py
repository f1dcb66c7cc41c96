"""Mistakes in moves, statements and the lifecycle, and the histories that show them.

Most change one statement or function, and then make ordinary moves. The others make a wrong move or write a wrong
row.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

import pytest
from django.db.models import Q
from django.db.models.functions import Now

from billing import ledger
from jobs.enums import Status
from jobs.execution.time_limits import Budget
from jobs.lifecycle import job_moves, shard_moves, webhook_events
from jobs.models import Job, JobEvent, Shard
from jobs.queue import sweep
from jobs.submission import store
from simservice.postgresql.statements import run
from tests.factories import BuildFactory
from tests.jobs.history.histories import (
    WALL_MS,
    claimed_job,
    completed,
    end_run,
    expire_lease,
    file_of,
    helped_stage,
    lose,
    run_job,
    run_shard,
    running_job,
    submitted,
)
from tests.jobs.shards.sharded_jobs import claimed, end, make_stage, start, started
from tests.webhooks.helpers import STEADY, make_client_with_events
from webhooks import claims, retries
from webhooks.claims import claim_deliveries
from webhooks.http_client import Response
from webhooks.models import Delivery, Event
from webhooks.retries import record_responses

Patch = pytest.MonkeyPatch


class Mistake(NamedTuple):
    """What is wrong, the rule that it breaks, and the function that makes the mistake and the history."""

    rule: str
    make: Callable[[Patch], object]


MISTAKES: dict[str, Mistake] = {}


def mistake(rule: str) -> Callable[[Callable[[Patch], object]], Callable[[Patch], object]]:
    """Add a mistake, named by its function, with the rule that it breaks."""

    def add(make: Callable[[Patch], object]) -> Callable[[Patch], object]:
        MISTAKES[make.__name__] = Mistake(rule, make)
        return make

    return add


def change(patch: Patch, statements: dict[str, str], name: str, old: str, new: str) -> None:
    """Replace a text in a statement."""
    assert old in statements[name], statements[name]
    patch.setitem(statements, name, statements[name].replace(old, new))


def change_move(patch: Patch, name: str, old: str, new: str) -> None:
    """Replace a text in a statement of the moves of jobs."""
    change(patch, job_moves.SQL, name, old, new)


def change_shard(patch: Patch, name: str, old: str, new: str) -> None:
    """Replace a text in a statement of the moves of shards."""
    change(patch, shard_moves.SQL, name, old, new)


# Moves of jobs


@mistake("events_are_moves")
def claim_takes_a_running_job(patch: Patch) -> None:
    waits = "status FROM jobs_job\n        WHERE worker = ''"
    change_move(patch, "claim_job", waits, "status FROM jobs_job\n        WHERE true")
    running_job()
    assert job_moves.claim_job("host:2:cd:0") is not None


@mistake("events_are_moves")
def announcement_records_a_start(patch: Patch) -> None:
    change_move(patch, "mark_queued", "('pending'), ('queued'), attempt", "('pending'), 'running', attempt")
    assert job_moves.mark_queued(submitted())


@mistake("attempts_are_claims")
def claim_skips_an_attempt(patch: Patch) -> None:
    change_move(patch, "claim_job", "attempt = attempt + 1", "attempt = attempt + 2")
    claimed_job()


@mistake("job_matches_last_event")
def start_writes_no_event(patch: Patch) -> None:
    change_move(patch, "start_run", "attempt, '' FROM started", "attempt, '' FROM started WHERE false")
    running_job()


@mistake("end_is_final")
def end_is_recorded_twice(patch: Patch) -> None:
    """Two events of one end, as two processes that both end a job would write."""
    change_move(
        patch,
        "end_job",
        "attempt, coalesce(status_reason, '') FROM ended",
        "attempt, coalesce(status_reason, '') FROM ended, generate_series(1, 2)",
    )
    run_job()


@mistake("job_begins_with_submission")
def submission_counts_an_attempt(patch: Patch) -> None:
    change(patch, store.SQL, "store_job", "'', %(status)s, 0, ''", "'', %(status)s, 1, ''")
    submitted()


@mistake("end_has_its_time")
def end_keeps_an_older_time(patch: Patch) -> None:
    change_move(patch, "end_job", "completed_at = statement_timestamp()", "completed_at = created_at")
    run_job()


@mistake("claimed_job_is_cancelled_on_request")
def attempt_cancels_without_a_request(patch: Patch) -> None:
    patch.setattr(job_moves, "CANCEL_REQUESTED", Q(pk__gt=0))
    job, _ = running_job()
    assert job_moves.requeue(job, reason="the worker stops")


@mistake("cancelled_job_is_not_claimed")
def cancelled_job_returns_to_the_queue(patch: Patch) -> None:
    patch.setattr(job_moves, "CANCEL_REQUESTED", ~Q(pk__gt=0))
    job, _ = running_job()
    assert job_moves.request_cancel(job)
    lose(job)
    assert job_moves.claim_job("host:2:cd:0") is not None


@mistake("paused_job_is_not_claimed")
def claim_takes_a_paused_job(patch: Patch) -> None:
    job = submitted()
    assert job_moves.mark_queued(job)
    moved = {"from_status": Status.QUEUED, "to_status": Status.QUEUED, "cause": "paused"}
    JobEvent.objects.create(job=job, at=Now(), attempt=0, **moved)
    assert job_moves.claim_job("host:2:cd:0") is not None


@mistake("events_are_in_order")
def event_has_a_local_time(patch: Patch) -> None:
    change_move(
        patch,
        "start_run",
        "SELECT id, statement_timestamp(), ('starting')",
        "SELECT id, statement_timestamp() - interval '1 h', ('starting')",
    )
    running_job()


# Attempts and leases


@mistake("returns_have_a_cause")
def return_has_no_cause(patch: Patch) -> None:
    job, _ = running_job()
    assert job_moves.requeue(job, reason="", cause="")  # type: ignore[arg-type]


@mistake("lost_attempts_are_limited")
def losses_are_not_counted(patch: Patch) -> None:
    patch.setattr(sweep, "lost_attempts", lambda _: 0)
    job, _ = running_job()
    for _ in range(3):
        expire_lease(job)
        assert sweep.recover(Job.objects.get(pk=job.pk), reason="the worker was killed")
        assert job_moves.claim_job("host:2:cd:0") is not None


@mistake("lease_is_held_while_claimed")
def claim_keeps_the_name_of_another_worker(patch: Patch) -> None:
    change_move(patch, "claim_job", "worker = %(worker)s", "worker = 'host:9:ff:0'")
    claimed_job()


@mistake("lease_lasts")
def sweep_does_not_wait_for_the_lease(patch: Patch) -> None:
    patch.setattr(job_moves, "LEASE_EXPIRED", Q())
    claimed_job()
    patch.setattr(sweep.recover, "__kwdefaults__", {"reason": "", "guard": Q()})
    assert sweep.recover_expired_leases() == 1


# Runs


@mistake("runs_belong_to_attempts")
def start_ignores_the_status(patch: Patch) -> None:
    change_move(patch, "start_run", "AND status IN ('starting', 'running')\n        AND (", "AND (")
    job, _ = running_job()
    stale = Job.objects.get(pk=job.pk)
    lose(job)
    assert job_moves.start_run(stale, build=BuildFactory.create(), stage=2) is not None


@mistake("job_runs_since_its_first_process")
def second_run_resets_the_start(patch: Patch) -> None:
    change_move(patch, "start_run", "status IN ('starting')) RETURNING", "true) RETURNING")
    change_move(patch, "start_run", "attempt, '' FROM started", "attempt, '' FROM started WHERE false")
    job, _ = running_job()
    assert job_moves.start_run(job, build=BuildFactory.create(), stage=2)


@mistake("runs_end_with_their_attempt")
def lost_attempt_leaves_its_run_open(patch: Patch) -> None:
    patch.setattr(job_moves, "end_lost_runs", lambda _: None)
    job, _ = running_job()
    lose(job)


@mistake("runs_end_with_their_attempt")
def end_leaves_runs_open(patch: Patch) -> None:
    change_move(patch, "end_job", "jobs_run.job_id = ended.id", "false AND jobs_run.job_id = ended.id")
    job, _ = running_job()
    assert job_moves.finish(job, job_moves.INTERNAL)


@mistake("runs_end_with_their_attempt")
def lost_run_is_ended_again(patch: Patch) -> None:
    change_move(patch, "end_run", " AND ended_at IS NULL", "")
    job, run_id = running_job()
    lose(job)
    end_run(run_id)


@mistake("lost_runs_have_no_duration")
def end_of_a_run_has_no_duration(patch: Patch) -> None:
    change_move(patch, "end_run", "wall_ms = %(wall_ms)s", "wall_ms = NULL")
    end_run(running_job()[1])


@mistake("one_process_at_a_time")
def shard_is_claimed_twice(patch: Patch) -> None:
    stage = helped_stage()
    change_shard(patch, "claim_shard", "jobs_shard.status IN ('waiting')", "number = 1")
    for _ in range(2):
        assert start(stage, claimed(stage)) is not None


@mistake("seats_are_not_shared")
def seats_exceed_the_slots(patch: Patch) -> None:
    change_shard(patch, "claim_shard", "generate_series(1, stage.slots - 1)", "generate_series(3, 9)")
    run_shard(helped_stage())


@mistake("artifacts_are_of_the_last_attempt")
def lost_attempt_ends_the_job(patch: Patch) -> None:
    change_move(patch, "end_job", "AND attempt = %(attempt)s AND EXISTS", "AND EXISTS")
    stale, _ = running_job()
    lose(stale)
    current = job_moves.claim_job("host:2:cd:0")
    assert current is not None
    assert job_moves.start_run(current, build=BuildFactory.create())
    assert job_moves.finish(stale, job_moves.INTERNAL, artifacts=[file_of(stale)])


@mistake("time_is_that_of_the_runs")
def lost_time_is_counted(patch: Patch) -> None:
    job, run_id = running_job()
    end_run(run_id)
    assert job_moves.finish(job, completed(job, wall_ms=2 * WALL_MS))


# Shards


@mistake("time_is_that_of_the_runs")
def a_shard_is_not_billed(patch: Patch) -> None:
    stage = helped_stage()
    for _ in range(4):
        run_shard(stage, conducts=True)
    job = Job.objects.get(pk=stage.job_id)
    assert job_moves.finish(job, completed(job, wall_ms=4 * 3000))


@mistake("allotted_time_is_that_of_the_shards")
def returned_shard_keeps_its_allowance(patch: Patch) -> None:
    change_shard(patch, "return_shard", "allotted_ms = allotted_ms - allowance_ms", "allotted_ms = allotted_ms")
    stage = helped_stage()
    assert shard_moves.return_shard(claimed(stage), losses=0)


@mistake("allotted_time_is_that_of_the_shards")
def rejected_shard_keeps_its_bill(patch: Patch) -> None:
    change_shard(patch, "reject_shard", "allotted_ms - billed_ms", "allotted_ms")
    stage = helped_stage()
    run_shard(stage)
    shard = Shard.objects.get(stage=stage, number=1)
    key = {"shard_id": shard.pk, "try_number": shard.try_number, "text": None}
    run(shard_moves.SQL["reject_shard"], values=key | {"attempt": stage.attempt})


@mistake("stages_are_funded_by_the_hold")
def stage_is_funded_beyond_the_hold(patch: Patch) -> None:
    change_shard(patch, "fund_sharded_stage", "greatest(funded_ms, %(funded_ms)s)", "2 * %(funded_ms)s")
    stage = helped_stage()
    values = {"stage_id": stage.pk, "attempt": stage.attempt, "funded_ms": 100_000}
    assert run(shard_moves.SQL["fund_sharded_stage"], values=values)


@mistake("shards_match_their_runs")
def end_of_a_shard_ignores_the_try(patch: Patch) -> None:
    change_shard(patch, "end_shard", "AND try_number = %(try_number)s", "")
    stage = helped_stage()
    stale, run_id = started(stage)
    assert shard_moves.return_shard(stale, losses=1)
    started(stage)
    assert end(stale, run_id)


@mistake("shards_match_their_runs")
def shard_is_billed_more_than_it_ran(patch: Patch) -> None:
    change_shard(patch, "end_shard", "least(%(billed_ms)s, before.allowance_ms)", "before.allowance_ms")
    run_shard(helped_stage())


@mistake("stages_belong_to_attempts")
def stage_names_the_next_attempt(patch: Patch) -> None:
    patch.setattr(job_moves, "lock_row", lambda _: True)
    job, _ = running_job()
    make_stage(Job.objects.get(pk=job.pk), attempt=job.attempt + 1)


# Credits


@mistake("job_has_a_hold")
def hold_belongs_to_no_moment(patch: Patch) -> None:
    change(
        patch,
        store.SQL,
        "store_job",
        "INSERT INTO billing_hold (job_id, account_id, credits)\n    SELECT job_id, account_id, greatest",
        "INSERT INTO billing_hold (job_id, account_id, created_at, credits)\n"
        "    SELECT job_id, account_id, now() - interval '1 h', greatest",
    )
    submitted()


@mistake("hold_is_settled_at_the_end")
def settlement_spends_too_little(patch: Patch) -> None:
    change_move(patch, "end_job", "SET spent = %(spent)s,", "SET spent = %(spent)s - 1,")
    run_job()


@mistake("entries_add_up")
def settlement_writes_an_entry_twice(patch: Patch) -> None:
    change_move(patch, "end_job", "\n    WHERE part.credits > 0", ", generate_series(1, 2) WHERE part.credits > 0")
    run_job()


@mistake("credits_move_with_the_job")
def lost_attempt_holds_credits(patch: Patch) -> None:
    patch.setattr(job_moves, "lock_row", lambda _: True)
    job, _ = running_job(held_credits=320)
    lose(job)
    ledger.correct(job.account, 640, reason="for a test")
    assert job_moves.extend_hold(job, 32)


@mistake("bill_is_the_price_of_the_time")
def price_is_rounded_down(patch: Patch) -> None:
    job, run_id = running_job()
    end_run(run_id)
    charge = Budget(job, held_credits=3200).charge
    wrong = charge(WALL_MS // 1000 * 1000)
    assert job_moves.finish(job, replace(completed(job), credits_consumed=wrong))


@mistake("bill_is_the_price_of_the_time")
def job_without_a_run_is_charged(patch: Patch) -> None:
    job, _ = running_job()
    assert job_moves.finish(job, replace(job_moves.INTERNAL, credits_consumed=32))


# Events and deliveries


@mistake("end_is_reported_once")
def end_writes_no_webhook_event(patch: Patch) -> None:
    change_move(patch, "end_job", "FROM ended WHERE wants_webhook", "FROM ended WHERE NOT wants_webhook")
    run_job(wants_webhook=True)


@mistake("end_is_reported_once")
def unwanted_end_is_reported(patch: Patch) -> None:
    change_move(patch, "end_job", "FROM ended WHERE wants_webhook", "FROM ended")
    patch.setattr(
        webhook_events,
        "end_payload",
        lambda job, **fields: {"id": str(job.pk), "status": fields["status"], "statusReason": None},
    )
    run_job()


@mistake("notice_tells_the_end")
def webhook_reports_another_status(patch: Patch) -> None:
    payload = webhook_events.end_payload
    patch.setattr(
        webhook_events, "end_payload", lambda job, **fields: payload(job, **fields | {"status": Status.FAILED})
    )
    run_job(wants_webhook=True)


def noticed_job() -> Job:
    """Return an ended job whose webhook event is due."""
    return run_job(client=make_client_with_events(0), wants_webhook=True)


@mistake("one_request_at_a_time")
def delivery_is_lost_before_its_lease(patch: Patch) -> None:
    patch.setattr(claims, "LEASE_SECONDS", -1)
    noticed_job()
    assert len(claim_deliveries(STEADY, room=1)) == 1
    assert retries.recover_lost() == 1
    assert len(claim_deliveries(STEADY, room=1)) == 1
    patch.undo()


@mistake("notice_matches_its_last_delivery")
def late_response_is_recorded(patch: Patch) -> None:
    change(patch, retries.SQL, "end_attempts", " AND delivery.outcome = 'sending'", "")
    noticed_job()
    (attempt,) = claim_deliveries(STEADY, room=1)
    Event.objects.update(lease_expires_at=Now() - timedelta(seconds=1))
    assert retries.recover_lost() == 1
    Delivery.objects.update(started_at=Now() - timedelta(minutes=1))
    assert len(claim_deliveries(STEADY, room=1)) == 1
    record_responses([(attempt, Response(status=500))])


@mistake("retries_are_counted")
def event_is_given_up_early(patch: Patch) -> None:
    patch.setattr(retries, "WAITS", ())
    noticed_job()
    record_responses([(attempt, Response(status=500)) for attempt in claim_deliveries(STEADY, room=1)])
    patch.undo()


# Order


@mistake("claims_are_in_order")
def claims_take_the_latest_job(patch: Patch) -> None:
    change_move(patch, "claim_job", "ORDER BY priority, id LIMIT", "ORDER BY priority, id DESC LIMIT")
    for _ in range(4):
        submitted()
    for number in range(4):
        assert job_moves.claim_job(f"host:{number}:ab:0") is not None
