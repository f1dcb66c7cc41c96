"""Workers killed at any point between claim and settlement: the job ends once and is billed once."""

import math
import signal
from pathlib import Path

import pytest
from django.db.models import F

from billing import ledger
from billing.models import Hold
from jobs.enums import TERMINAL
from jobs.execution import simulation_worker
from jobs.models import DailyUsage, Job, JobEvent, Run
from jobs.operations import hold_audit
from tests.billing.ledger_state import LONG
from tests.factories import make_account, make_client, make_job
from tests.faults.points import POINTS
from tests.faults.processes import QUICK, kill_worker, recover, start_worker
from tests.jobs.simulators import LEAVE_REPORT, make_stand_in
from tests.waiting import wait_until
from webhooks.models import Event

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]

CREDITS = 10_000
RATE, FEE = 32, 7
# Less than is held in advance, so that the worker holds more at once.
RESERVED = RATE * 10
# The points that a short run tests.
FEW = ["simulator started", "while the end runs"]
# Points at which the first attempt ends the job. PostgreSQL completes a statement even if its client has died.
ENDED = ["while the end runs", "end committed"]


def job_on_credit(held_credits: int = CREDITS - FEE) -> Job:
    """Accept a job with a fee and a webhook for an account with `CREDITS` credits."""
    account = make_account(credits=CREDITS)
    job = make_job(
        make_client(account),
        ceiling_credits=CREDITS - FEE,
        held_credits=held_credits,
        priority_fee_credits=FEE,
        wants_webhook=True,
    )
    ledger.correct(account, -(held_credits + FEE), reason="the factory buys the credits it holds")
    return job


def assert_billed_once(job: Job) -> None:
    """Assert that a job ended once, was billed for its last attempt only, and has one event."""
    assert JobEvent.objects.filter(job=job, to_status__in=TERMINAL).count() == 1
    assert not Run.objects.filter(ended_at=None).exists()
    hold = Hold.objects.get()
    assert hold.resolved_at is not None
    assert hold.spent == job.credits_consumed
    balances = ledger.balances(job.account)
    assert (balances.reserved, balances.available) == (0, CREDITS - (job.credits_consumed or 0))
    assert list(ledger.verify()) == []
    assert list(hold_audit.discrepancies()) == []
    assert Event.objects.get().job_id == job.pk
    used = DailyUsage.objects.get()
    assert (used.jobs, used.credits, used.sim_ms) == (1, job.credits_consumed, job.sim_duration_ms or 0)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS if LONG else FEW)
def test_a_job_ends_once_and_is_billed_once_after_a_kill(point: str, tmp_path: Path) -> None:
    build = make_stand_in(tmp_path, f"time.sleep(1.2)\n{LEAVE_REPORT}")
    job = job_on_credit(held_credits=RESERVED)
    kill_worker(point, Path(build.executable))
    recover()
    simulation_worker.simulate()
    job.refresh_from_db()
    assert (job.status, job.attempt) == ("completed", 1 if point in ENDED else 2)
    counted = Run.objects.get(job=job, attempt=job.attempt)
    assert counted.wall_ms is not None
    assert job.sim_duration_ms == counted.wall_ms
    assert job.credits_consumed == math.ceil(counted.wall_ms / 1000) * RATE + FEE
    assert set(job.artifacts.values_list("attempt", flat=True)) == {job.attempt}
    assert_billed_once(job)


@pytest.mark.slow
@pytest.mark.skipif(not LONG, reason="takes a lease for each attempt")
def test_a_job_whose_workers_are_all_killed_costs_nothing(tmp_path: Path) -> None:
    build = make_stand_in(tmp_path, "time.sleep(60)")
    job = job_on_credit()
    for _ in range(3):
        kill_worker("while it runs", Path(build.executable))
        recover()
    job.refresh_from_db()
    assert (job.status, job.error_code, job.credits_consumed) == ("failed", "execution_interrupted", 0)
    assert Run.objects.filter(wall_ms=None, stopped_for="lost", ended_at__gte=F("started_at")).count() == 3
    assert_billed_once(job)


@pytest.mark.slow
@pytest.mark.skipif(not LONG, reason="takes a lease")
def test_a_worker_that_resumes_after_its_lease_changes_nothing(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"time.sleep(1.2)\n{LEAVE_REPORT}")
    job = job_on_credit()
    worker = start_worker(chosen=QUICK)
    wait_until(lambda: Job.objects.get().status == "running")
    worker.send_signal(signal.SIGSTOP)
    recover()
    simulation_worker.simulate()
    worker.send_signal(signal.SIGCONT)
    assert worker.wait(30) == 0
    job.refresh_from_db()
    assert (job.status, job.attempt) == ("completed", 2)
    assert_billed_once(job)
