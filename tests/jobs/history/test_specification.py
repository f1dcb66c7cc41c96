"""Histories written by hand: the rules need neither Django nor a database."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from jobs.history.claim_order import ClaimOrder
from jobs.history.rows import EntryRow, EventRow, History, HoldRow, JobRow, RunRow, ShardRow, StageRow, Terms
from jobs.history.specification import RULES, broken

TERMS = Terms(
    lease_seconds=15,
    delivery_lease_seconds=30,
    max_attempts=3,
    most_deliveries=11,
    notices_kept_since=0.0,
    shortest_allowance_ms=4_000,
)
NOW = 1_000.0
Change = tuple[str, str, str]


def events_of(*changes: Change) -> list[EventRow]:
    """Return events, one a second, of changes with a status before and after, and a cause or reason."""
    attempt, rows = 0, []
    for number, (before, after, why) in enumerate(changes):
        attempt += after == "starting" and before != after
        cause = why if why in {"lost", "returned", "paused", "resumed"} else ""
        rows.append(
            EventRow(
                id=number + 1,
                at=float(number),
                before=before,
                after=after,
                attempt=attempt,
                cause=cause,
                reason=why,
            )
        )
    return rows


def history_of(changes: Sequence[Change], *, job: dict[str, Any] | None = None, **rows: Any) -> History:
    """Return the history of a job with these changes, which holds 320 credits and has no other rows."""
    events = events_of(*changes)
    last = events[-1]
    is_claimed = last.after in {"starting", "running"}
    is_running = last.after == "running"
    started_at = next((event.at for event in reversed(events) if event.before == "starting"), None)
    fields: dict[str, Any] = {
        "id": 1, "account_id": 1, "client_id": 1, "priority": 1, "git_branch": "midnight", "status": last.after,
        "attempt": last.attempt, "worker": "w" if is_claimed else "", "created_at": 0.0, "completed_at": None,
        "lease_expires_at": 99.0 if is_claimed else None, "started_at": started_at if is_running else None,
        "cancel_requested_at": None, "queue_seconds": 1800, "ceiling_credits": 320, "ceiling_seconds": 10,
        "fee_credits": 0, "credits_per_second": 32, "parallel_slots": 4, "wants_webhook": False, "build_id": "b",
        "error_code": None, "sim_ms": None, "credits_consumed": None,
    }  # fmt: skip
    hold = HoldRow(id=1, account_id=1, credits=320, spent=None, created_at=0.0, resolved_at=None)
    entry = EntryRow(id=1, account_id=1, at=0.0, source="purchased", target="held", credits=320)
    nothing: dict[str, Any] = dict.fromkeys(("runs", "stages", "shards", "artifacts", "deliveries"), ())
    defaults = {"hold": hold, "entries": [entry], "notice": None, **nothing}
    return History(terms=TERMS, job=JobRow(**fields | (job or {})), events=events, **defaults | rows)


def broken_rules(history: History) -> set[str]:
    """Return the names of the rules that a history breaks."""
    return {rule.name for rule, _ in broken(history)}


SUBMITTED: list[Change] = [("", "pending", ""), ("pending", "queued", "")]
CLAIMED: Change = ("queued", "starting", "claimed by w")
STARTED: Change = ("starting", "running", "")
LOST: Change = ("running", "queued", "lost")
RETURNED: Change = ("running", "queued", "returned")
PAUSED: Change = ("queued", "queued", "paused")
RESUMED: Change = ("queued", "queued", "resumed")
RUNNING = [*SUBMITTED, CLAIMED, STARTED]


def run_of(number: int, **fields: Any) -> RunRow:
    """Return the run of a helper that ran from 3.5 s to 4.5 s."""
    defaults: dict[str, Any] = {
        "id": number, "attempt": 1, "stage": 1, "shard": number, "try_number": 1, "seat": 1, "build_id": "b",
        "started_at": 3.5, "ended_at": 4.5, "wall_ms": 1000, "stopped_for": "",
    }  # fmt: skip
    return RunRow(**defaults | fields)


@pytest.mark.parametrize(
    "changes",
    [
        SUBMITTED,
        RUNNING,
        [*RUNNING, LOST, CLAIMED],
        [*RUNNING, RETURNED, PAUSED, RESUMED, CLAIMED, STARTED],
        [("", "pending", ""), ("pending", "queued", "paused"), RESUMED],
        [*RUNNING, LOST, CLAIMED, ("starting", "starting", "stage 1 starts again: its build is gone")],
    ],
)
def test_pauses_and_notes_are_possible(changes: list[Change]) -> None:
    assert broken_rules(history_of(changes)) == set()


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ([*RUNNING, RETURNED, PAUSED, CLAIMED], "paused_job_is_not_claimed"),
        ([*SUBMITTED, PAUSED, PAUSED], "paused_job_is_not_claimed"),
        ([*SUBMITTED, RESUMED], "paused_job_is_not_claimed"),
        ([*SUBMITTED, ("queued", "queued", "")], "events_are_moves"),
        ([*RUNNING, ("running", "running", "")], "events_are_moves"),
        ([*SUBMITTED, CLAIMED, ("starting", "running", "lost")], "returns_have_a_cause"),
    ],
)
def test_other_pauses_and_notes_are_impossible(changes: list[Change], rule: str) -> None:
    assert rule in broken_rules(history_of(changes))


def test_a_helper_finishes_its_shard_between_two_attempts() -> None:
    changes = [*RUNNING, LOST, ("queued", "starting", "claimed by w"), STARTED]
    own = run_of(1, seat=0, shard=0, started_at=3.2, ended_at=4.001, wall_ms=None, stopped_for="lost")
    again = run_of(3, seat=0, shard=0, attempt=2, try_number=2, started_at=6.5, ended_at=None, wall_ms=None)
    runs = [own, run_of(2), again]
    stage = StageRow(id=1, attempt=2, stage=1, slots=4, funded_ms=10_000, allotted_ms=5_000)
    shards = [shard_of(0, status="running", try_number=2), shard_of(2, status="done", billed_ms=1_000)]
    assert broken_rules(history_of(changes, runs=runs, stages=[stage], shards=shards)) == set()
    late = [replace(own, wall_ms=500, stopped_for="", ended_at=4.5), *runs[1:]]
    assert "runs_end_with_their_attempt" in broken_rules(history_of(changes, runs=late))


def shard_of(number: int, *, status: str, try_number: int = 1, billed_ms: int = 0) -> ShardRow:
    """Return a shard. A running one has seat 0 and an allowance of 4 s."""
    held = {"seat": 0, "worker": "w", "lease_expires_at": 99.0, "allowance_ms": 4_000}
    free = {"seat": None, "worker": "", "lease_expires_at": None, "allowance_ms": 0}
    rest: dict[str, Any] = held if status == "running" else free
    return ShardRow(
        id=number, stage_id=1, number=number, status=status, try_number=try_number, billed_ms=billed_ms, **rest
    )


def test_a_running_shard_has_a_lease() -> None:
    stage = StageRow(id=1, attempt=1, stage=1, slots=4, funded_ms=10_000, allotted_ms=4_000)
    shard = replace(shard_of(1, status="running"), lease_expires_at=None)
    found = broken_rules(history_of(RUNNING, stages=[stage], shards=[shard]))
    assert found == {"shards_have_leases_while_running"}


def test_a_pause_returns_credits_and_a_resume_holds_them_again() -> None:
    changes = [*SUBMITTED, PAUSED, RESUMED]
    hold = HoldRow(id=1, account_id=1, credits=64, spent=None, created_at=0.0, resolved_at=None)

    def moves(*times: float) -> list[EntryRow]:
        amounts = [("purchased", "held", 320), ("held", "purchased", 319), ("purchased", "held", 63)]
        return [
            EntryRow(id=number, account_id=1, at=at, source=source, target=target, credits=amount)
            for number, (at, (source, target, amount)) in enumerate(zip(times, amounts, strict=True))
        ]

    assert broken_rules(history_of(changes, hold=hold, entries=moves(0.0, 2.1, 3.1))) == set()
    for wrong in (moves(0.0, 1.9, 3.1), moves(0.0, 2.1, 2.9)):
        assert broken_rules(history_of(changes, hold=hold, entries=wrong)) == {"credits_move_with_the_job"}


def skipped(*claims: float, created: float = 0.0, changes: Sequence[Change] = ()) -> list[int]:
    """Return the skipped jobs if job 1 still waits and later jobs are claimed at these times."""
    order, found = ClaimOrder(lock_seconds=30), []
    waiting = history_of([("", "pending", ""), *changes], job={"created_at": created})
    histories = [waiting]
    for number, at in enumerate(claims, start=2):
        later = history_of([("", "pending", ""), ("pending", "starting", "claimed by w")], job={"id": number})
        histories.append(replace(later, events=[later.events[0], replace(later.events[1], at=at)]))
    for history in histories:
        found += [impossible.row.id for impossible in order.add(history, now=NOW)]
    return found


def test_a_job_is_skipped_only_if_no_lock_explains_it() -> None:
    assert skipped(10.0, 20.0, 41.0) == [1]
    assert skipped(10.0, 20.0, 41.0, 50.0) == [1]
    assert skipped(10.0, 41.0) == []
    assert skipped(10.0, 20.0, 39.0) == []
    assert skipped(10.0, 20.0, 41.0, changes=[("pending", "queued", "paused")]) == []


def test_the_rules_need_no_django() -> None:
    program = (
        "import sys, jobs.history.claim_order; sys.exit(any(name.startswith('django') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_each_rule_has_a_sentence_and_a_name_of_its_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.sentence.endswith(".") and rule.kept_by for rule in RULES)
