"""Fee for high priority: charged if the job ran, released if it never started."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.db.models.functions import Now

from billing import ledger
from billing.models import Hold
from clients.audit import SYSTEM
from jobs.enums import Priority
from jobs.execution import attempt, verdict
from jobs.lifecycle import cancellation, job_moves
from jobs.models import Job, Run
from jobs.operations import hold_audit
from jobs.queue import sweep
from tests.conftest import Api
from tests.factories import make_account, make_job, make_key
from tests.jobs.simulators import LEAVE_REPORT, RUN_UNTIL_INTERRUPTED, claim, make_stand_in, run, run_with_action

pytestmark = pytest.mark.django_db(transaction=True)
FEE = 320


def paid(job: Job) -> int | None:
    """Return the credits charged for a job and verify the ledger."""
    assert list(ledger.verify()) == []
    assert list(hold_audit.discrepancies()) == []
    return Hold.objects.get(pk=job.pk).spent


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (LEAVE_REPORT, "completed"),
        ("sys.exit('Nothing to sim!')", "failed"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "failed"),
    ],
    ids=["completed", "refused", "crashed"],
)
def test_the_fee_is_charged_for_a_job_that_ran(tmp_path: Path, body: str, status: str) -> None:
    make_stand_in(tmp_path, body)
    job = run(priority_fee_credits=FEE)
    assert (job.status, paid(job)) == (status, 32 + FEE)


def test_the_fee_is_charged_for_a_job_cancelled_while_running(tmp_path: Path) -> None:
    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED)
    job = run_with_action(cancelled, priority_fee_credits=FEE)
    assert job.status == "cancelled"
    assert paid(job) == -(-Run.objects.get().wall_ms // 1000) * 32 + FEE  # type: ignore[operator]


def overdue(job: Job) -> None:
    Job.objects.update(queue_deadline_at=Now())
    sweep.end_overdue_waits()


def cancelled_when_claimed(job: Job) -> None:
    claimed = claim()
    cancellation.cancel(claimed, by=SYSTEM)
    attempt.execute(claimed)


def cancelled(job: Job) -> None:
    cancellation.cancel(job, by=SYSTEM)


def without_build(job: Job) -> None:
    attempt.execute(claim())


def lost_too_often(job: Job) -> None:
    assert job_moves.claim_job("worker-1")
    Job.objects.update(attempt=3, lease_expires_at=Now())
    sweep.recover_expired_leases()


def fail(*_: object, **__: object) -> None:
    raise ZeroDivisionError


NEVER_RAN = [
    overdue,
    cancelled,
    cancelled_when_claimed,
    without_build,
    lost_too_often,
]


def reported(api: Api, job: Job) -> list[int]:
    """Return the fee in the job's responses."""
    responses = [api.get(f"jobs/{job.pk}"), api.get(f"jobs/{job.pk}/result")]
    return [
        response.json()["runtime"]["priorityFeeCredits"] for response in responses if response.status_code == 200
    ]


@pytest.mark.parametrize("end", NEVER_RAN, ids=lambda end: end.__name__)
def test_the_fee_is_reported_until_it_is_released(end: Callable[[Job], object], tmp_path: Path) -> None:
    if end is not without_build:
        make_stand_in(tmp_path, LEAVE_REPORT)
    key, secret = make_key()
    job = make_job(key.client, priority=Priority.HIGH, priority_fee_credits=FEE)
    assert reported(Api(secret), job) == [FEE]
    end(job)
    assert reported(Api(secret), job) == [0]


def test_a_job_that_ran_reports_its_fee(tmp_path: Path) -> None:
    make_stand_in(tmp_path, LEAVE_REPORT)
    key, secret = make_key()
    job = run(key.client, priority=Priority.HIGH, priority_fee_credits=FEE)
    assert reported(Api(secret), job) == [FEE, FEE]


def test_the_fee_is_not_reported_after_an_internal_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_stand_in(tmp_path, LEAVE_REPORT)
    monkeypatch.setattr(verdict, "outcome_of", fail)
    key, secret = make_key()
    job = run(key.client, priority=Priority.HIGH, priority_fee_credits=FEE)
    assert (job.error_code, paid(job)) == ("internal", 0)
    assert set(reported(Api(secret), job)) == {0}


@pytest.mark.parametrize("end", NEVER_RAN, ids=lambda end: end.__name__)
def test_the_fee_of_a_job_that_never_started_is_released(end: Callable[[Job], object], tmp_path: Path) -> None:
    if end is not without_build:
        make_stand_in(tmp_path, LEAVE_REPORT)
    account = make_account()
    job = make_job(account.clients.get(), priority_fee_credits=FEE)
    available = ledger.available(account)
    end(job)
    assert Job.objects.get().is_terminal
    assert paid(job) == 0
    assert ledger.available(account) == available + job.ceiling_credits + FEE
