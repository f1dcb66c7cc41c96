"""The state machine: transitions, races, and constraints of the database."""

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from jobs.enums import TERMINAL, MoveResult, Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.lifecycle.transitions import IllegalTransition, JobMove
from jobs.models import CHARACTER_LENGTH, Build, Job, JobEvent
from tests.factories import BuildFactory, make_job, make_running_job, start_attempt
from tests.jobs.api.job_states import STATES

pytestmark = pytest.mark.django_db

DONE = Outcome(status=Status.COMPLETED, summary={"metric": "dps"}, sim_duration_ms=1500, credits_consumed=64)
# The functions that move a job to a status
FUNCTIONS: list[tuple[Callable[[Job], object], Status, tuple[JobMove, ...]]] = [
    (job_moves.mark_queued, Status.QUEUED, (JobMove.ANNOUNCE,)),
    (partial(job_moves.requeue, reason="lost"), Status.QUEUED, (JobMove.REQUEUE,)),
    (lambda job: job_moves.start_run(job, build=Build()), Status.RUNNING, (JobMove.START,)),
    *(
        (partial(job_moves.finish, outcome=Outcome(status=status)), status, (JobMove.ABANDON, JobMove.END))
        for status in TERMINAL
    ),
]
FORBIDDEN = [
    (before, function)
    for function, after, moves in FUNCTIONS
    for before in Status
    # A running job starts further processes without a move.
    if (before, after) != (Status.RUNNING, Status.RUNNING)
    and not any(before in move.sources and after in move.targets for move in moves)
]


@pytest.mark.parametrize(("before", "function"), FORBIDDEN)
def test_no_other_transition_is_possible(before: Status, function: Callable[[Job], object]) -> None:
    job = make_job()
    job.status = before
    with pytest.raises(IllegalTransition):
        function(job)


@pytest.mark.parametrize("status", Status)
def test_only_waiting_jobs_are_claimed(status: Status) -> None:
    job = STATES[status]()
    assert job_moves.claim_job("w") == (job if status in JobMove.CLAIM.sources else None)


def test_every_transition_is_recorded_with_its_attempt() -> None:
    job = make_job()
    job_moves.mark_queued(job)
    start_attempt(job, worker="w")
    job_moves.start_run(job, build=BuildFactory.create())
    job_moves.finish(job, DONE)
    events = JobEvent.objects.filter(job=job).order_by("id")
    assert list(events.values_list("from_status", "to_status", "attempt")) == [
        ("", "pending", 0),
        ("pending", "queued", 0),
        ("queued", "starting", 1),
        ("starting", "running", 1),
        ("running", "completed", 1),
    ]


def test_an_end_stores_its_outcome() -> None:
    job = make_running_job()
    outcome = Outcome(
        status=Status.TIMED_OUT,
        error_code="execution_timeout",
        reason='a "long" % reason' * 60,
        exit_code="1",
        sim_duration_ms=2**40,
        slots_used=256,
        credits_consumed=64,
        summary={"mainActor": {"name": "Zoë'\\" * 60}, "x": [1.5, None]},
        warnings=["Warning: no"],
        missing_artifacts=[{"kind": "html_report", "stage": 1, "reason": "no"}],
        percent=12.5,
    )
    assert job_moves.finish(job, outcome)
    changed = {
        "status": "timed_out",
        "error_code": "execution_timeout",
        "status_reason": outcome.reason and outcome.reason[:500],
        "simulator_exit_code": "1",
        "sim_duration_ms": 2**40,
        "slots_used": 256,
        "credits_consumed": 64,
        "summary": outcome.summary,
        "character": ("Zoë'\\" * 60)[:CHARACTER_LENGTH],
        "warnings": outcome.warnings,
        "missing_artifacts": outcome.missing_artifacts,
        "percent": 12.5,
        "worker": "",
        "lease_expires_at": None,
    }
    row: dict[str, Any] = dict(Job.objects.values().get(pk=job.pk))
    assert {name: row[name] for name in changed} == changed
    kept = row.keys() - changed.keys() - {"completed_at", "updated_at"}
    assert {name: row[name] for name in kept} == {name: getattr(job, name) for name in kept}
    assert row["completed_at"] == row["updated_at"] > row["started_at"]


def test_a_second_end_changes_nothing() -> None:
    job = make_running_job()
    other = Job.objects.get(pk=job.pk)
    assert job_moves.finish(job, DONE)
    assert not job_moves.finish(other, Outcome(status=Status.CANCELLED, error_code="user_cancelled"))
    job.refresh_from_db()
    assert (job.status, job.credits_consumed) == ("completed", 64)
    assert JobEvent.objects.filter(job=job, to_status__in=TERMINAL).count() == 1


def test_a_replaced_attempt_cannot_write() -> None:
    stale = make_running_job()
    fresh = Job.objects.get(pk=stale.pk)
    assert job_moves.requeue(fresh, reason="lost")
    assert start_attempt(fresh, worker="worker-2")
    assert not job_moves.renew_lease(stale)
    assert not job_moves.finish(stale, DONE)
    stale.status = Status.STARTING
    assert job_moves.start_run(stale, build=BuildFactory.create()) is None
    assert Job.objects.get(pk=stale.pk).worker == "worker-2"


def test_a_failed_move_returns_its_reason() -> None:
    job = make_running_job()
    stale = copy(job)
    assert job_moves.requeue(copy(job), reason="", guard=job_moves.LEASE_EXPIRED) is MoveResult.GUARD_FAILED
    assert job_moves.requeue(job, reason="") is MoveResult.DONE
    assert job_moves.requeue(stale, reason="", guard=job_moves.LEASE_EXPIRED) is MoveResult.TAKEN
    assert job_moves.finish(stale, job_moves.INTERNAL) is MoveResult.TAKEN


def test_a_requeued_job_keeps_its_place_and_loses_its_start() -> None:
    job = make_running_job()
    job_moves.requeue(job, reason="lost")
    job.refresh_from_db()
    assert (job.status, job.started_at, job.worker, job.lease_expires_at) == ("queued", None, "", None)
    assert (job.attempt, job.retried) == (1, True)


def test_a_waiting_job_has_no_lease() -> None:
    assert not job_moves.renew_lease(make_job())


@pytest.mark.parametrize("status", [status for status in Status if status not in TERMINAL])
def test_the_database_makes_terminal_statuses_final(status: Status) -> None:
    job = make_running_job()
    job_moves.finish(job, DONE)
    with pytest.raises(IntegrityError, match="has ended"), transaction.atomic():
        Job.objects.filter(pk=job.pk).update(status=status)


def test_attempts_never_decrease() -> None:
    job = make_running_job()
    with pytest.raises(IntegrityError, match="cannot count down"), transaction.atomic():
        Job.objects.filter(pk=job.pk).update(attempt=0)


@pytest.mark.parametrize(
    ("constraint", "changes"),
    [
        ("job_lease_iff_held", {"worker": "somebody"}),
        ("job_lease_iff_held", {"lease_expires_at": Now()}),
        ("job_lease_iff_held", {"status": "running", "attempt": 1}),
        ("job_held_was_claimed", {"status": "running", "worker": "w", "lease_expires_at": Now()}),
        ("job_ended_iff_terminal", {"status": "failed", "error_code": "internal"}),
        ("job_ended_iff_terminal", {"completed_at": Now()}),
        ("job_error_iff_unsuccessful", {"error_code": "internal"}),
        ("job_error_iff_unsuccessful", {"summary": {}}),
        ("job_error_iff_unsuccessful", {"status": "failed", "completed_at": Now(), "credits_consumed": 0}),
        ("job_error_iff_unsuccessful", {"status": "completed", "completed_at": Now(), "credits_consumed": 0}),
        ("job_status_known|job_error_iff_unsuccessful", {"status": "sleeping"}),
        ("job_priority_known", {"priority": 3}),
    ],
)
def test_the_database_rejects_inconsistent_rows(constraint: str, changes: dict[str, object]) -> None:
    job = make_job()
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        Job.objects.filter(pk=job.pk).update(**changes)


def test_a_job_cannot_be_billed_over_its_ceiling() -> None:
    job = make_running_job(ceiling_credits=100, held_credits=200)
    over = Outcome(status=Status.TIMED_OUT, error_code="max_credits_reached", credits_consumed=101)
    with pytest.raises(IntegrityError, match="job_billed_within_ceiling"), transaction.atomic():
        job_moves.finish(job, over)
