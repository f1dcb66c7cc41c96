"""Settlement of credits, in one transaction with the terminal status."""

import re

import pytest
from django.db import DataError, IntegrityError, transaction
from django.db.models.functions import Now

from billing import ledger
from billing.errors import HoldError
from billing.models import Balance, Hold, Plan
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.management.commands.seedlocal import DEMO_CREDITS, ensure_account, ensure_credits
from jobs.models import Job
from jobs.queue import sweep
from tests.concurrency import at_once
from tests.conftest import Api
from tests.factories import make_account, make_job, make_key, make_running_job

pytestmark = pytest.mark.django_db
DONE = Outcome(status=Status.COMPLETED, summary={"metric": "dps"}, sim_duration_ms=1500, credits_consumed=64)
PROFILE = 'mage="A"\nspec=frost\n'


def hold_of(job: Job) -> tuple[int, int | None]:
    """Return the held and spent credits of a job and verify the ledger."""
    assert list(ledger.verify()) == []
    hold = Hold.objects.get(pk=job.pk)
    return hold.credits, hold.spent


def test_a_submission_reserves_the_ceiling_of_the_job(api: Api) -> None:
    body = {"build": {"channel": "latest"}, "profile": {"text": PROFILE}, "runtime": {"maxCredits": 640}}
    job = Job.objects.get(pk=api.post("jobs", body).json()["id"])
    assert hold_of(job) == (640, None)
    assert ledger.balances(job.account).reserved == 640


def test_the_end_charges_the_usage_and_returns_the_rest() -> None:
    job = make_running_job()
    before = ledger.available(job.account)
    assert job_moves.finish(job, DONE)
    assert hold_of(job) == (3200, 64)
    assert ledger.available(job.account) == before + 3200 - 64


def test_an_expired_wait_costs_nothing() -> None:
    job = make_job()
    Job.objects.update(queue_deadline_at=Now())
    assert sweep.end_overdue_waits() == 1
    assert hold_of(job) == (3200, 0)


def test_a_job_lost_for_the_last_time_costs_nothing() -> None:
    job = make_running_job()
    Job.objects.update(lease_expires_at=Now(), attempt=3)
    assert sweep.recover_expired_leases() == 1
    assert hold_of(job) == (3200, 0)


def test_a_requeued_job_keeps_its_hold() -> None:
    job = make_running_job()
    job_moves.requeue(job, reason="lost")
    assert hold_of(job) == (3200, None)


def test_a_second_end_charges_nothing() -> None:
    job = make_running_job()
    assert job_moves.finish(job, DONE)
    assert not job_moves.finish(job, Outcome(status=Status.CANCELLED, error_code="user_cancelled"))
    assert hold_of(job) == (3200, 64)


@pytest.mark.django_db(transaction=True)
def test_a_failed_settlement_leaves_the_job_for_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_running_job()
    with monkeypatch.context() as broken:
        failing = re.sub("SELECT extract.* FROM ended\\s*$", "SELECT 1 / 0 FROM ended", job_moves.SQL["end_job"])
        broken.setitem(job_moves.SQL, "end_job", failing)
        with pytest.raises(DataError):
            job_moves.finish(job, DONE)
    assert (Job.objects.get(pk=job.pk).status, hold_of(job)) == ("running", (3200, None))
    assert job_moves.finish(job, DONE)
    assert hold_of(job) == (3200, 64)


def test_an_end_over_the_ceiling_settles_nothing() -> None:
    job = make_running_job(held_credits=9999)
    over = Outcome(status=Status.TIMED_OUT, error_code="execution_timeout", credits_consumed=9999)
    with pytest.raises(IntegrityError, match="job_billed_within_ceiling"), transaction.atomic():
        job_moves.finish(job, over)
    assert hold_of(job) == (9999, None)


def test_an_end_over_the_hold_changes_nothing() -> None:
    job = make_running_job()
    over = Outcome(status=Status.TIMED_OUT, error_code="execution_timeout", credits_consumed=3201)
    with pytest.raises(HoldError, match="3201 credits cannot be spent of the 3200"):
        job_moves.finish(job, over)
    assert (Job.objects.get(pk=job.pk).status, hold_of(job)) == ("running", (3200, None))


def test_a_job_of_an_account_without_a_balance_does_not_end() -> None:
    job = make_running_job()
    Balance.objects.filter(pk=job.account_id).delete()
    with pytest.raises(HoldError, match="has no balance"):
        job_moves.finish(job, job_moves.INTERNAL)
    assert (Job.objects.get(pk=job.pk).status, Hold.objects.get(pk=job.pk).resolved_at) == (Status.RUNNING, None)


def test_the_demo_account_receives_its_credits_once() -> None:
    account = ensure_account()
    ensure_credits(account)
    ensure_credits(account)
    assert ledger.available(account) == DEMO_CREDITS


def test_the_demo_plan_has_several_slots_unless_an_operator_changed_it() -> None:
    assert ensure_account().plan.max_parallel_slots == 8
    Plan.objects.update(max_parallel_slots=1)
    assert ensure_account().plan.max_parallel_slots == 1


@pytest.mark.django_db(transaction=True)
def test_submissions_and_settlements_do_not_deadlock() -> None:
    key, secret = make_key(make_account(credits=100_000))
    body = {"build": {"channel": "latest"}, "profile": {"text": PROFILE}, "runtime": {"maxCredits": 32}}
    outcomes: list[bool] = []

    def submit_and_end() -> None:
        for _ in range(15):
            job = Job.objects.get(pk=Api(secret).post("jobs", body).json()["id"])
            cancelled = Outcome(status=Status.CANCELLED, error_code="user_cancelled")
            outcomes.append(bool(job_moves.finish(job, cancelled)))

    at_once(4, submit_and_end)
    assert outcomes == [True] * 60
    assert ledger.available(key.client.account) == 100_000
    assert list(ledger.verify()) == []
