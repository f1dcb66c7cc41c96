"""Clients that submit all parts of a comparison at once, each with a limit of 1,800 s and an idempotency key."""

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import Settings

from billing import ledger
from billing.models import Account, Hold
from clients.accounts import default_client
from clients.models import ApiKey
from jobs.lifecycle import job_moves
from jobs.models import IdempotencyKey, Job, JobProfile
from jobs.operations import hold_audit
from jobs.submission import accept
from tests.concurrency import at_once
from tests.conftest import Api
from tests.factories import PROFILE, BuildFactory, make_account, make_key, make_running_job
from tests.jobs.api.bodies import BODY, only_in
from tests.jobs.planning.test_estimates import end_job
from tests.statements import traffic

RATE, SLICE, LIMIT = 32, 60 * 32, 1800 * 32
CHUNKS = 48
RUNTIME = {"multiStage": True, "maxRuntimeSeconds": 1800}
pytestmark = only_in("C")


def submit(api: Api, number: int = 0, **more: Any) -> Any:
    """Submit a part as such a client does."""
    text = PROFILE + "".join(f"profileset.s{number}_{each}+=intellect={each}\n" for each in range(5))
    body = BODY | {"profile": {"text": text}, "runtime": RUNTIME, "metadata": {"part": str(number)}} | more
    return api.post("jobs", body, headers={"idempotency-key": f"part-{number}"})


def set_credits(account: Account, credits_left: int) -> None:
    """Set the credits of an account."""
    if change := credits_left - ledger.available(account):
        ledger.correct(account, change, reason="for the test")


def held(response: Any) -> int:
    """Return the credits reserved for an accepted job."""
    return Hold.objects.get(job_id=response.json()["id"]).credits


def stored() -> list[int]:
    """Return the number of rows of each kind that a submission stores."""
    return [model.objects.count() for model in (Job, JobProfile, Hold, IdempotencyKey)]


@pytest.fixture
def account(key: tuple[ApiKey, str]) -> Account:
    """Return the caller's account, which has the welcome credits."""
    account = key[0].client.account
    set_credits(account, 115_200)
    return account


def test_a_new_account_can_reserve_all_parts(api: Api, account: Account, settings: Settings) -> None:
    set_credits(account, settings.SIGNUP_CREDITS)
    responses = [submit(api, number) for number in range(CHUNKS)]
    assert {response.status_code for response in responses} == {200}
    assert [held(response) for response in responses] == [SLICE] * CHUNKS
    ceiling = responses[0].json()["runtime"]["ceiling"]
    assert ceiling == {"maxCredits": LIMIT, "runtimeSeconds": 1800, "queueSeconds": 1800}
    again = [submit(api, number) for number in range(CHUNKS)]
    assert [response.content for response in again] == [response.content for response in responses]
    assert stored() == [CHUNKS] * 4
    assert (list(ledger.verify()), list(hold_audit.discrepancies())) == ([], [])


def test_an_estimate_decides_the_reservation(api: Api, account: Account) -> None:
    end_job(account, BuildFactory.create())
    body: dict[str, Any] = {"profile": {"text": PROFILE}, "runtime": {"maxRuntimeSeconds": 1800}}
    seconds = api.post("jobs/validate", BODY | body).json()["estimate"]["credits"]["high"] // RATE
    assert held(submit(api, **body)) == (seconds + 15) * RATE < SLICE
    long = body | {"profile": {"text": PROFILE + "iterations=50000\n"}}
    assert SLICE < held(submit(api, 1, **long)) < LIMIT
    assert held(submit(api, 2, **long | {"runtime": {"maxRuntimeSeconds": 16}})) == 16 * RATE


def test_an_estimate_changes_no_other_reservation(api: Api, account: Account) -> None:
    end_job(account, BuildFactory.create())
    assert held(submit(api, runtime={})) == SLICE
    assert held(submit(api, 1, runtime={"maxCredits": 5000})) == 5000


def test_an_estimate_costs_three_queries(api: Api, account: Account) -> None:
    end_job(account, BuildFactory.create())
    submit(api)
    counts = []
    for number, runtime in enumerate(({"maxCredits": 320}, RUNTIME), start=1):
        with traffic() as seen:
            assert submit(api, number, runtime=runtime).status_code == 200
        counts.append(len(seen.statements))
    assert counts[1] - counts[0] == 3


@pytest.mark.parametrize(("has", "reserved"), [(RATE, RATE), (1000, 1000), (SLICE + 1, SLICE)])
def test_the_last_part_reserves_what_is_left(api: Api, account: Account, has: int, reserved: int) -> None:
    set_credits(account, has)
    assert held(submit(api)) == reserved


def full(account: Account) -> Callable[[], object]:
    """Fill the account's active jobs; return what makes room."""
    plan = account.plan
    plan.max_active_jobs = 1
    plan.save(update_fields=["max_active_jobs"])
    job = make_running_job(client=default_client(account))
    return lambda: job_moves.finish(job, job_moves.CANCELLED)


def poor(account: Account) -> Callable[[], object]:
    """Take all credits but one second's; return what grants more."""
    set_credits(account, RATE - 1)
    return lambda: ledger.correct(account, 1, reason="for the test")


@pytest.mark.parametrize(
    ("state", "code"), [(full, "max_active_jobs_exceeded"), (poor, "insufficient_credits_liability")]
)
def test_a_refused_part_is_accepted_later_with_its_key(
    api: Api, account: Account, state: Callable[[Account], Callable[[], object]], code: str
) -> None:
    make_room = state(account)
    before = stored()
    assert [submit(api).json()["code"] for _ in range(2)] == [code] * 2
    assert stored() == before
    make_room()
    accepted = submit(api)
    assert (accepted.status_code, "X-Idempotent-Replay" in accepted.headers) == (200, False)
    assert submit(api).content == accepted.content
    assert stored() == [count + 1 for count in before]


def test_the_error_says_what_the_part_needed(api: Api, account: Account) -> None:
    set_credits(account, RATE - 1)
    meta = submit(api).json()["meta"]
    del meta["docsUrl"]
    assert meta == {
        "reason": "insufficient_credits",
        "requiredCredits": RATE,
        "ceilingMaxCredits": LIMIT,
        "ceilingRuntimeSeconds": 1800,
        "maxAffordableCredits": RATE - 1,
        "maxAffordableRuntimeSeconds": 0,
    }


def test_a_part_whose_response_was_lost_is_replayed(
    api: Api, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(accept, "_announce", lambda _: 1 / 0)
        assert submit(api).status_code == 500
    again = submit(api)
    assert (again.status_code, again.headers["X-Idempotent-Replay"]) == (200, "true")
    assert (stored(), ledger.available(account)) == ([1] * 4, 115_200 - SLICE)


@pytest.mark.parametrize(
    ("limits", "has", "accepted"),
    [({"max_active_jobs": 2}, 115_200, 2), ({}, 2 * SLICE + RATE, 3)],
    ids=["active jobs", "credits"],
)
def test_of_simultaneous_parts_only_what_fits_is_accepted(
    transactional_db: None, limits: dict[str, int], has: int, accepted: int
) -> None:
    account = make_account(credits=has, **limits)
    secret = make_key(account)[1]
    responses: list[Any] = []
    numbers = iter(range(6))
    at_once(6, lambda: responses.append(submit(Api(secret), next(numbers))))
    refused = {402, 429} & {response.status_code for response in responses}
    assert sum(response.status_code == 200 for response in responses) == accepted
    assert len(refused) == 1
    assert stored() == [accepted] * 4
    assert ledger.available(account) == max(0, has - accepted * SLICE)
    assert (list(ledger.verify()), list(hold_audit.discrepancies())) == ([], [])
