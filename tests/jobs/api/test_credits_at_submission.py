"""What a submission reserves, and what it is told when that is too much (contract, sections 1 and 7)."""

from typing import Any

import pytest
from django.utils import timezone

from billing import ledger
from billing.models import Account, Hold
from clients.models import ApiKey
from jobs.models import Job, Priority
from tests.conftest import Api
from tests.factories import make_job
from tests.jobs.api.bodies import BODY, only_in

FEE = 320


@pytest.fixture
def account(key: tuple[ApiKey, str]) -> Account:
    """The caller's account, with 1,000 credits."""
    account = key[0].client.account
    ledger.correct(account, 1000 - ledger.available(account), reason="for the test")
    return account


def submit(api: Api, priority: str = "standard", **runtime: int) -> Any:
    return api.post("jobs", BODY | {"priority": priority, "runtime": runtime})


def test_a_shortage_tells_what_can_be_afforded(api: Api, account: Account) -> None:
    answer = submit(api, maxRuntimeSeconds=60)
    assert (answer.status_code, answer.json()["code"]) == (402, "insufficient_credits_liability")
    meta = answer.json()["meta"]
    assert meta.pop("docsUrl").endswith("/docs#insufficient_credits_liability")
    assert meta == {
        "reason": "insufficient_credits",
        "ceilingMaxCredits": 1920,
        "maxAffordableCredits": 1000,
        "ceilingRuntimeSeconds": 60,
        "maxAffordableRuntimeSeconds": 31,
    }
    assert "priorityFeeCredits" not in answer.json()
    assert not Job.objects.exists()
    assert ledger.available(account) == 1000


def test_what_can_be_afforded_is_accepted(api: Api, account: Account) -> None:
    seconds = submit(api, maxRuntimeSeconds=60).json()["meta"]["maxAffordableRuntimeSeconds"]
    assert submit(api, maxRuntimeSeconds=seconds).status_code == 200
    assert ledger.available(account) == 1000 - 31 * 32


@only_in("C")
def test_a_shortage_for_the_first_slice_is_told_alike(api: Api, account: Account) -> None:
    meta = submit(api).json()["meta"]
    assert (meta["ceilingMaxCredits"], meta["maxAffordableCredits"]) == (57_600, 1000)


def test_the_fee_is_due_when_somebody_is_overtaken(api: Api, account: Account) -> None:
    make_job(priority=Priority.BACKGROUND)
    body = submit(api, "high", maxRuntimeSeconds=10).json()
    assert body["runtime"]["priorityFeeCredits"] == FEE
    assert Hold.objects.get(job_id=body["id"]).credits == 320 + FEE
    assert api.get(f"jobs/{body['id']}").json()["runtime"]["priorityFeeCredits"] == FEE


@pytest.mark.parametrize("waiting", [[], [Priority.HIGH]])
def test_the_fee_is_waived_when_nobody_is_overtaken(api: Api, account: Account, waiting: list[Priority]) -> None:
    for priority in waiting:
        make_job(priority=priority)
    body = submit(api, "high", maxRuntimeSeconds=10).json()
    assert body["runtime"]["priorityFeeCredits"] == 0
    job = Job.objects.get(pk=body["id"])
    assert (job.priority, Hold.objects.get(job_id=job.pk).credits) == (Priority.HIGH, 320)


def test_lower_priorities_cost_nothing_extra(api: Api, account: Account) -> None:
    make_job(priority=Priority.BACKGROUND)
    assert submit(api, maxRuntimeSeconds=10).json()["runtime"]["priorityFeeCredits"] == 0


def test_a_shortage_at_high_priority_tells_the_fee(api: Api, account: Account) -> None:
    make_job(priority=Priority.BACKGROUND)
    body = submit(api, "high", maxRuntimeSeconds=30).json()
    assert body["code"] == "insufficient_credits_liability"
    assert body["priorityFeeCredits"] == body["meta"]["priorityFeeCredits"] == FEE
    assert body["meta"]["maxAffordableCredits"] == 1000 - FEE


def test_a_fee_beyond_all_credits_leaves_nothing_to_afford(api: Api, account: Account) -> None:
    ledger.correct(account, -900, reason="for the test")
    make_job(priority=Priority.BACKGROUND)
    meta = submit(api, "high", maxRuntimeSeconds=1).json()["meta"]
    assert (meta["maxAffordableCredits"], meta["maxAffordableRuntimeSeconds"]) == (0, 0)


def test_a_suspended_account_submits_nothing_and_reads_all(api: Api, account: Account) -> None:
    job_id = submit(api, maxRuntimeSeconds=1).json()["id"]
    Account.objects.filter(pk=account.pk).update(suspended_at=timezone.now())
    answer = submit(api, maxRuntimeSeconds=1)
    assert (answer.status_code, answer.json()["code"]) == (402, "inactive_entitlement")
    assert api.get(f"jobs/{job_id}").status_code == 200
    assert Job.objects.count() == 1
