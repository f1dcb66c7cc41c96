"""Budget of a running job: slices, exhausted credits, the cap, and what is billed."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from pytest_django import Settings

from billing import ledger
from billing.models import GrantReason, Hold
from clients.accounts import default_client
from clients.models import Client
from jobs.execution import attempt, simulator_run, time_limits
from jobs.execution.time_limits import Budget
from jobs.lifecycle import job_moves
from jobs.models import Job
from jobs.operations import hold_audit
from jobs.submission import accept
from tests.billing.ledger_state import expire_now
from tests.factories import make_account, make_job, start_attempt
from tests.jobs.simulators import LEAVE_REPORT, RUN_UNTIL_INTERRUPTED, claim, make_stand_in, run

pytestmark = pytest.mark.django_db(transaction=True)

RATE = 32


def client_with(credits_left: int) -> Client:
    """Make a client whose account has this many available credits."""
    return default_client(make_account(credits=credits_left))


def sliced(*, held_credits: int, credits_left: int = 0, **fields: Any) -> Budget:
    """Return the budget of a job without a cap that holds one slice of its 3200 credits."""
    job = make_job(client_with(credits_left), held_credits=held_credits, **fields)
    assert start_attempt(job, worker="worker-1")
    return Budget.of(job, hold_credits=Hold.objects.get(pk=job.pk).credits)


def held_credits(job: Job) -> int:
    """Return the credits held for a job."""
    return Hold.objects.get(pk=job.pk).credits


@pytest.fixture
def _short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extend budgets by one second whenever less than one is left."""
    for module in (accept, time_limits):
        monkeypatch.setattr(module, "SLICE_SECONDS", 1)
    monkeypatch.setattr(time_limits, "MIN_AHEAD_SECONDS", 1)
    monkeypatch.setattr(time_limits, "RETRY_SECONDS", 0.1)


def test_the_fee_is_held_but_not_available_for_the_run() -> None:
    budget = sliced(held_credits=64, priority_fee_credits=320)
    assert (budget.held_credits, budget.seconds, budget.is_complete) == (64, 2, False)


def test_no_slice_is_added_while_enough_is_left() -> None:
    budget = sliced(held_credits=960, credits_left=10_000)
    budget.extend_when_due(ran_seconds=14.9)
    assert held_credits(budget.job) == 960


def test_slices_are_added_in_time_up_to_the_ceiling() -> None:
    budget = sliced(held_credits=960, credits_left=10_000)
    budget.extend_when_due(ran_seconds=15.1)
    assert (held_credits(budget.job), budget.held_credits, budget.is_complete) == (2880, 2880, False)
    budget.extend_when_due(ran_seconds=80)
    assert (held_credits(budget.job), budget.held_credits, budget.is_complete) == (3200, 3200, True)
    budget.extend_when_due(ran_seconds=99)
    assert held_credits(budget.job) == 3200


def test_an_unaffordable_slice_shrinks_to_whole_seconds() -> None:
    budget = sliced(held_credits=320, credits_left=100)
    budget.extend_when_due(ran_seconds=5)
    assert (held_credits(budget.job), budget.held_credits, budget.seconds) == (416, 416, 13)


def test_a_held_fraction_is_completed_to_a_second() -> None:
    budget = sliced(held_credits=40, credits_left=30)
    budget.extend_when_due(ran_seconds=0.5)
    assert (held_credits(budget.job), budget.seconds) == (64, 2)


def test_credits_below_one_second_stay_in_the_account() -> None:
    budget = sliced(held_credits=40, credits_left=10)
    budget.extend_when_due(ran_seconds=0.5)
    assert (held_credits(budget.job), budget.seconds) == (40, 1)


def test_credits_that_arrive_in_time_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = sliced(held_credits=320)
    budget.extend_when_due(ran_seconds=5)
    ledger.correct(budget.job.account, 10_000, reason="for a test")
    budget.extend_when_due(ran_seconds=5.1)
    assert budget.held_credits == 320
    budget.next_at = 0
    budget.extend_when_due(ran_seconds=10)
    assert held_credits(budget.job) == budget.held_credits == 320 + 1920


def test_a_lost_attempt_holds_no_more_credits() -> None:
    budget = sliced(held_credits=320, credits_left=10_000)
    job = Job.objects.get(pk=budget.job.pk)
    assert job_moves.requeue(job, reason="taken")
    assert start_attempt(job, worker="worker-2")
    budget.extend_when_due(ran_seconds=5)
    assert held_credits(budget.job) == budget.held_credits == 320


def test_unconfirmed_credits_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(job_id: int, amount: int) -> None:
        raise OperationalError

    monkeypatch.setattr(ledger, "extend", hangs)
    budget = sliced(held_credits=320, credits_left=10_000)
    with pytest.raises(OperationalError):
        budget.extend_when_due(ran_seconds=5)
    assert budget.seconds == 10


@pytest.mark.parametrize(
    ("wall_ms", "credits_billed"), [(1, 32), (1000, 32), (1001, 64), (3000, 96), (3001, 100), (9999, 100)]
)
def test_the_charge_is_rounded_up_once_within_the_hold(wall_ms: int, credits_billed: int) -> None:
    assert sliced(held_credits=100).charge(wall_ms) == credits_billed


@pytest.mark.usefixtures("_short_slices")
def test_a_job_without_a_cap_runs_while_there_are_credits(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"time.sleep(3.2)\n{LEAVE_REPORT}")
    job = run(client_with(10_000), held_credits=RATE * 2)
    assert (job.status, job.credits_consumed) == ("completed", 4 * RATE)
    assert held_credits(job) >= 4 * RATE


@pytest.mark.usefixtures("_short_slices")
def test_a_job_out_of_credits_stops_and_is_billed_its_hold(tmp_path: Path) -> None:
    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED)
    client = client_with(RATE + 5)
    job = run(client, held_credits=RATE, priority_fee_credits=7)
    assert (job.status, job.error_code) == ("failed", "insufficient_credits")
    assert "ran out of credits" in str(job.status_reason)
    assert (held_credits(job), job.credits_consumed) == (2 * RATE + 7, 2 * RATE + 7)
    assert job.summary is not None
    assert job.summary["partial"] is True
    assert ledger.available(client.account) == 5


def test_a_job_runs_on_a_fraction_of_a_slice(tmp_path: Path) -> None:
    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED)
    client = client_with(0)
    job = run(client, held_credits=RATE + 8)
    assert (job.status, job.error_code, job.credits_consumed) == ("failed", "insufficient_credits", RATE + 8)
    assert job.sim_duration_ms is not None
    assert 1000 <= job.sim_duration_ms < 3500
    assert (list(ledger.verify()), list(hold_audit.discrepancies())) == ([], [])


def test_a_small_reservation_grows_before_it_is_used(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"time.sleep(2.2)\n{LEAVE_REPORT}")
    job = run(client_with(10_000), held_credits=RATE)
    assert (job.status, job.credits_consumed) == ("completed", 3 * RATE)


def test_a_small_reservation_survives_a_lost_attempt(tmp_path: Path) -> None:
    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED)
    make_job(client_with(0), held_credits=RATE + 8)
    assert job_moves.requeue(claim(), reason="lost")
    attempt.execute(claim())
    job = Job.objects.get()
    assert (job.attempt, job.error_code, job.credits_consumed) == (2, "insufficient_credits", RATE + 8)


def test_held_credits_outlive_the_expiry_of_their_grant(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"time.sleep(0.1)\n{LEAVE_REPORT}")
    client = client_with(0)
    granted = ledger.grant(client.account, 40, reason=GrantReason.GRANT_PROMO, note="for a test")
    job = make_job(client, held_credits=RATE)
    assert Hold.objects.get(pk=job.pk).credits == RATE
    expire_now(granted)
    attempt.execute(claim())
    job.refresh_from_db()
    assert (job.status, job.credits_consumed) == ("completed", RATE)
    assert list(ledger.verify()) == []


@pytest.mark.usefixtures("_short_slices")
def test_a_hanging_database_does_not_extend_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called, released = threading.Event(), threading.Event()

    def hangs(job_id: int, amount: int) -> None:
        called.set()
        released.wait(8)
        raise OperationalError

    monkeypatch.setattr(ledger, "extend", hangs)
    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED)
    job = run(client_with(10_000), held_credits=RATE)
    assert called.is_set()
    assert job.error_code == "insufficient_credits"
    assert job.sim_duration_ms is not None
    assert job.sim_duration_ms < 7000
    assert job.credits_consumed == RATE


@pytest.mark.parametrize(
    ("variant", "code", "reason"),
    [("C", "max_credits_reached", "credit limit of 40"), ("R", "execution_timeout", "runtime limit of 1 s")],
    ids=["C", "R"],
)
def test_the_reason_names_the_cap_of_the_variant(
    tmp_path: Path, settings: Settings, variant: str, code: str, reason: str
) -> None:
    settings.API_VARIANT = variant
    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED)
    job = run(ceiling_credits=40, ceiling_runtime_seconds=1, priority_fee_credits=3)
    assert (job.status, job.error_code, job.credits_consumed) == ("timed_out", code, 43)
    assert reason in str(job.status_reason)


@pytest.mark.usefixtures("_short_slices")
def test_a_time_limit_that_was_not_reserved_ends_the_job_as_if_it_was(tmp_path: Path) -> None:
    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED)
    client, limit = client_with(10_000), 3 * RATE
    job = run(
        client, held_credits=RATE, max_credits=limit, ceiling_credits=limit, ceiling_runtime_seconds=3,
        priority_fee_credits=7,
    )  # fmt: skip
    assert (job.status, job.error_code) == ("timed_out", "max_credits_reached")
    assert held_credits(job) == job.credits_consumed == limit + 7
    assert ledger.available(client.account) == 10_000 - 2 * RATE
    assert (list(ledger.verify()), list(hold_audit.discrepancies())) == ([], [])


def test_a_stubborn_simulator_exceeds_its_cap_by_two_seconds(tmp_path: Path) -> None:
    make_stand_in(tmp_path, "signal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(60)")
    started = time.monotonic()
    job = run(ceiling_credits=32, ceiling_runtime_seconds=1)
    assert job.simulator_exit_code == "SIGKILL"
    assert job.sim_duration_ms is not None
    assert job.sim_duration_ms <= 3000
    assert time.monotonic() - started < 20


def test_a_late_watcher_does_not_let_a_job_exceed_its_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limits.JobLimit, "seconds_left", 30.0)
    monkeypatch.setattr(simulator_run, "WATCH_SECONDS", 30.0)
    make_stand_in(tmp_path, "time.sleep(60)")
    job = run(ceiling_credits=32, ceiling_runtime_seconds=1)
    assert (job.status, job.error_code, job.credits_consumed) == ("timed_out", "max_credits_reached", 32)
    assert job.sim_duration_ms is not None
    assert 3000 <= job.sim_duration_ms < 20_000


def test_a_cap_below_one_second_starts_no_run(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"time.sleep(0.5)\n{LEAVE_REPORT}")
    job = run(max_credits=1, ceiling_credits=1, ceiling_runtime_seconds=0)
    assert (job.status, job.error_code, job.credits_consumed) == ("timed_out", "max_credits_reached", 1)
    assert job.summary is None
