"""Reservation of credits at submission (docs/reference/limits.md#reservations)."""

from typing import Any

import pytest
from django.utils import timezone

from billing import ledger
from billing.models import Account, GrantReason, Hold, Plan
from clients.models import ApiKey
from jobs.enums import Priority
from jobs.models import Job
from simservice import worker_heartbeats
from tests.billing.ledger_state import expire_now
from tests.concurrency import at_once
from tests.conftest import Api
from tests.factories import make_job
from tests.jobs.api.bodies import BODY, only_in

FEE = 320


def set_credits(account: Account, credits_left: int) -> None:
    """Set the credits of an account."""
    change = credits_left - ledger.available(account)
    if change:
        ledger.correct(account, change, reason="for the test")


@pytest.fixture
def account(key: tuple[ApiKey, str]) -> Account:
    """Return the caller's account with 1,000 credits."""
    account = key[0].client.account
    set_credits(account, 1000)
    return account


def submit(api: Api, priority: str = "standard", **runtime: int) -> Any:
    return api.post("jobs", BODY | {"priority": priority, "runtime": runtime})


def capped(variant: str, seconds: int) -> dict[str, Any]:
    """Return a cap that is reserved in full."""
    return {"maxCredits": 32 * seconds} if variant == "C" else {"maxRuntimeSeconds": seconds}


def test_missing_credits_report_the_affordable_limit(api: Api, account: Account, variant: str) -> None:
    response = submit(api, **capped(variant, 60))
    assert (response.status_code, response.json()["code"]) == (402, "insufficient_credits_liability")
    meta = response.json()["meta"]
    assert meta.pop("docsUrl").endswith("/docs/errors#insufficient_credits_liability")
    assert meta == {
        "reason": "insufficient_credits",
        "ceilingMaxCredits": 1920,
        "maxAffordableCredits": 1000,
        "ceilingRuntimeSeconds": 60,
        "maxAffordableRuntimeSeconds": 31,
        "requiredCredits": 1920,
    }
    assert "priorityFeeCredits" not in response.json()
    assert not Job.objects.exists()
    assert ledger.available(account) == 1000


def test_the_affordable_limit_is_accepted(api: Api, account: Account, variant: str) -> None:
    seconds = submit(api, **capped(variant, 60)).json()["meta"]["maxAffordableRuntimeSeconds"]
    assert submit(api, **capped(variant, seconds)).status_code == 200
    assert ledger.available(account) == 1000 - 31 * 32


@only_in("C")
@pytest.mark.parametrize(("has", "reserved"), [(32, 32), (40, 40), (1000, 1000), (1920, 1920), (5000, 1920)])
def test_without_a_limit_a_slice_or_all_credits_are_reserved(
    api: Api, account: Account, has: int, reserved: int
) -> None:
    set_credits(account, has)
    body = submit(api).json()
    assert Hold.objects.get(job_id=body["id"]).credits == reserved
    assert ledger.available(account) == has - reserved
    assert body["runtime"]["ceiling"]["maxCredits"] == 57_600


@only_in("C")
@pytest.mark.parametrize("has", [1, 31])
def test_without_a_limit_one_second_must_be_affordable(api: Api, account: Account, has: int) -> None:
    set_credits(account, has)
    response = submit(api)
    assert (response.status_code, response.json()["code"]) == (402, "insufficient_credits_liability")
    meta = response.json()["meta"]
    del meta["docsUrl"]
    assert meta == {
        "reason": "insufficient_credits",
        "ceilingMaxCredits": 57_600,
        "maxAffordableCredits": has,
        "ceilingRuntimeSeconds": 1800,
        "maxAffordableRuntimeSeconds": 0,
        "requiredCredits": 32,
    }


@only_in("C")
def test_without_a_limit_the_fee_is_added_to_one_second(api: Api, account: Account) -> None:
    make_job()
    set_credits(account, FEE + 31)
    meta = submit(api, "high").json()["meta"]
    assert (meta["requiredCredits"], meta["maxAffordableCredits"]) == (FEE + 32, 31)
    ledger.correct(account, 9, reason="for the test")
    body = submit(api, "high").json()
    assert (body["runtime"]["priorityFeeCredits"], Hold.objects.get(job_id=body["id"]).credits) == (FEE, FEE + 40)


@only_in("C")
def test_a_limit_below_one_second_is_reserved_in_full(api: Api, account: Account) -> None:
    Plan.objects.update(max_credits_per_job=20)
    set_credits(account, 20)
    assert Hold.objects.get(job_id=submit(api).json()["id"]).credits == 20
    meta = submit(api).json()["meta"]
    assert (meta["requiredCredits"], meta["ceilingMaxCredits"]) == (20, 20)


@only_in("C")
def test_an_expired_grant_cannot_be_reserved(api: Api, account: Account) -> None:
    set_credits(account, 10)
    open_grant = ledger.grant(account, 50, reason=GrantReason.GRANT_PROMO, note="for the test")
    expire_now(ledger.grant(account, 500, reason=GrantReason.GRANT_PROMO, note="for the test"))
    assert Hold.objects.get(job_id=submit(api).json()["id"]).credits == 60
    expire_now(open_grant)
    cancel = api.post(f"jobs/{Job.objects.get().pk}/cancel")
    assert cancel.status_code == 200
    assert ledger.available(account) == 10


def test_the_fee_is_charged_for_overtaking_a_standard_job(api: Api, account: Account) -> None:
    make_job(priority=Priority.STANDARD)
    body = submit(api, "high", maxRuntimeSeconds=10).json()
    assert body["runtime"]["priorityFeeCredits"] == FEE
    assert Hold.objects.get(job_id=body["id"]).credits == 320 + FEE
    assert api.get(f"jobs/{body['id']}").json()["runtime"]["priorityFeeCredits"] == FEE


@pytest.mark.parametrize("waiting", [[], [Priority.HIGH], [Priority.BACKGROUND]])
def test_the_fee_is_waived_if_no_job_is_overtaken(api: Api, account: Account, waiting: list[Priority]) -> None:
    for priority in waiting:
        make_job(priority=priority)
    body = submit(api, "high", maxRuntimeSeconds=10).json()
    assert body["runtime"]["priorityFeeCredits"] == 0
    job = Job.objects.get(pk=body["id"])
    assert (job.priority, Hold.objects.get(job_id=job.pk).credits) == (Priority.HIGH, 320)


def test_lower_priorities_have_no_fee(api: Api, account: Account) -> None:
    make_job()
    assert submit(api, maxRuntimeSeconds=10).json()["runtime"]["priorityFeeCredits"] == 0


def test_missing_credits_at_high_priority_report_the_fee(api: Api, account: Account, variant: str) -> None:
    make_job()
    body = submit(api, "high", **capped(variant, 30)).json()
    assert body["code"] == "insufficient_credits_liability"
    assert body["priorityFeeCredits"] == body["meta"]["priorityFeeCredits"] == FEE
    assert body["meta"]["maxAffordableCredits"] == 1000 - FEE
    assert body["meta"]["requiredCredits"] == 960 + FEE


def test_a_fee_above_all_credits_leaves_nothing_affordable(api: Api, account: Account) -> None:
    ledger.correct(account, -900, reason="for the test")
    make_job()
    meta = submit(api, "high", maxRuntimeSeconds=1).json()["meta"]
    assert (meta["maxAffordableCredits"], meta["maxAffordableRuntimeSeconds"]) == (0, 0)


def test_a_suspended_account_can_only_read(api: Api, account: Account) -> None:
    job_id = submit(api, maxRuntimeSeconds=1).json()["id"]
    Account.objects.filter(pk=account.pk).update(suspended_at=timezone.now())
    response = submit(api, maxRuntimeSeconds=1)
    assert (response.status_code, response.json()["code"]) == (402, "inactive_entitlement")
    assert api.get(f"jobs/{job_id}").status_code == 200
    assert Job.objects.count() == 1


@only_in("C")
@pytest.mark.django_db(transaction=True)
def test_one_of_several_submissions_reserves_the_last_credits(api: Api, account: Account) -> None:
    set_credits(account, 100)
    statuses: list[int] = []
    at_once(6, lambda: statuses.append(submit(api).status_code))
    assert sorted(statuses) == [200, *[402] * 5]
    assert Hold.objects.get().credits == 100
    assert (ledger.available(account), list(ledger.verify())) == (0, [])


@pytest.mark.django_db(transaction=True)
def test_concurrent_submissions_see_each_others_fee(api: Api, account: Account) -> None:
    set_credits(account, 10_000)
    worker_heartbeats.report("sim@here", slots=3)
    make_job()
    fees: list[int] = []
    at_once(
        5, lambda: fees.append(submit(api, "high", maxRuntimeSeconds=1).json()["runtime"]["priorityFeeCredits"])
    )
    assert sorted(fees) == [0, 0, FEE, FEE, FEE]
