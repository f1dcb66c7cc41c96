"""`POST jobs/validate`: what would happen to a submission (docs/reference/api.md#dry-run)."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import Settings

from billing import ledger
from billing.models import Account, Entry, Hold
from clients.models import ApiKey
from jobs.lifecycle import job_moves
from jobs.models import IdempotencyKey, Job, JobProfile
from jobs.queue import forecast
from tests.conftest import Api
from tests.factories import PROFILE, BuildFactory, make_job
from tests.jobs.api.bodies import BODY, body_with, only_in
from tests.jobs.api.response_checks import checked
from tests.jobs.planning.test_estimates import end_job

SETS = "".join(f"profileset.s{number}+=trinket1=stone,id=1,ilevel={600 + 12 * number}\n" for number in range(6))
# Each is refused after its fields were read.
REFUSED: dict[str, Any] = {
    "line": body_with("profile.text", PROFILE + "html=/tmp/x"),
    "empty": body_with("profile.text", "iterations=5\n"),
    "queue": body_with("runtime.maxQueueSeconds", 86_401),
    "pin": body_with("build.id", "0b8f6a52-6f3b-4a7e-9d55-2f3f6c1b7a10"),
    "webhook": body_with("webhook.events", ["job.terminal"]),
}
UNREADABLE: dict[str, Callable[[Api, str], Any]] = {
    "fields": lambda api, path: api.post(path, {}),
    "json": lambda api, path: api.post(path, "{"),
    "type": lambda api, path: api.post(path, "x", content_type="text/csv"),
    "large": lambda api, path: api.post(path, body_with("profile.text", "#" * (2 * 1024 * 1024 + 1))),
    "query": lambda api, path: api.post(path + "?channel=latest", BODY),
}


@pytest.fixture
def account(key: tuple[ApiKey, str]) -> Account:
    return key[0].client.account


def as_refusal(response: Any) -> dict[str, Any]:
    """Return an error response in the form of a dry run's `refusal`."""
    body = response.json()
    return {"status": response.status_code, **{name: body[name] for name in ("error", "code", "meta")}}


def stored() -> list[Any]:
    models = (Job, JobProfile, Hold, IdempotencyKey, Entry)
    return [list(model.objects.order_by("pk").values()) for model in models]


def test_an_accepted_submission_is_valid(api: Api, variant: str) -> None:
    BuildFactory.create(commit="c0ffee")
    before = stored()
    found = checked(api.post("jobs/validate", BODY), variant)
    assert stored() == before
    assert (found["valid"], found["refusal"], found["refusedCount"]) == (True, None, 0)
    assert (found["actors"], found["variants"], found["names"]) == (1, 0, ["Frosty"])
    assert found["multiStage"] == {"enabled": False, "reason": "disabled_by_option", "stages": []}
    assert (found["build"]["commit"], found["estimate"]) == ("c0ffee", None)
    submitted = api.post("jobs", BODY).json()
    assert found["runtime"] == submitted["runtime"]


def test_a_dry_run_says_that_the_job_would_fail(api: Api, variant: str) -> None:
    found = checked(api.post("jobs/validate", BODY), variant)
    assert (found["valid"], found["build"]) == (False, None)
    assert found["refusal"] == {
        "status": 422,
        "error": job_moves.BUILD_UNAVAILABLE.reason,
        "code": "build_unavailable",
        "meta": {"reason": "build_unavailable"},
    }
    assert api.post("jobs", BODY).status_code == 200


def test_a_refusal_comes_before_the_missing_build(api: Api, variant: str) -> None:
    body: Any = body_with("profile.text", "iterations=5\n")
    assert checked(api.post("jobs/validate", body), variant)["refusal"]["code"] == "input_sanitized_rejected"


def test_a_job_with_a_pinned_build_could_run(api: Api, variant: str, account: Account) -> None:
    type(account.plan).objects.update(allows_build_pin=True)
    build = BuildFactory.create()
    assert checked(api.post("jobs/validate", body_with("build.id", str(build.pk))), variant)["valid"] is True


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_a_refusal_is_the_error_of_the_submission(api: Api, variant: str, body: Any) -> None:
    found = checked(api.post("jobs/validate", body), variant)
    assert (found["valid"], found["refusal"]) == (False, as_refusal(api.post("jobs", body)))


def test_too_few_credits_are_a_refusal_with_an_estimate(api: Api, variant: str, account: Account) -> None:
    end_job(account)
    ledger.correct(account, -ledger.available(account), reason="for the test")
    found = checked(api.post("jobs/validate", BODY), variant)
    assert found["refusal"] == as_refusal(api.post("jobs", BODY))
    assert found["estimate"]["basis"] == {"jobs": 1, "ownJobs": True, "sameBuild": True}


def test_a_refused_text_names_its_parameters(api: Api, variant: str) -> None:
    query, headers = "channel=latest&maxQueueSeconds=86401", {"content_type": "text/plain"}
    found = checked(api.post(f"jobs/validate?{query}", PROFILE, **headers), variant)
    assert [issue["path"] for issue in found["refusal"]["meta"]["issues"]] == ["maxQueueSeconds"]
    assert found["refusal"] == as_refusal(api.post_text(query, PROFILE))


def test_refused_lines_have_reasons(api: Api, variant: str) -> None:
    text = PROFILE + "html=/tmp/x\n" * 25
    found = checked(api.post("jobs/validate", body_with("profile.text", text)), variant)
    assert (found["refusedCount"], len(found["refusedLines"])) == (25, 20)
    first = found["refusedLines"][0]
    assert (first["line"], first["text"]) == (PROFILE.count("\n") + 1, "html=/tmp/x")
    assert "it writes a file" in first["reason"]
    assert (found["runtime"]["ceiling"], found["estimate"]) == (None, None)


def test_stages_are_planned(api: Api, variant: str) -> None:
    body = body_with("profile.text", PROFILE + SETS) | {"runtime": {"multiStage": True}}
    found = checked(api.post("jobs/validate", body), variant)["multiStage"]
    assert (found["enabled"], found["reason"]) == (True, "eligible_profileset_only")
    labels = [(stage["label"], stage["targetError"]) for stage in found["stages"]]
    assert labels == [("initial", 1.0), ("intermediate", 0.2), ("final", 0.05)]


def test_stages_that_would_not_run_have_a_reason(api: Api, variant: str) -> None:
    found = checked(api.post("jobs/validate", BODY | {"runtime": {"multiStage": True}}), variant)["multiStage"]
    assert found == {"enabled": False, "reason": "no_variants_in_input", "stages": []}


def test_an_estimate_has_a_range_and_its_basis(api: Api, variant: str, account: Account) -> None:
    end_job(account)
    BuildFactory.create()
    found = checked(api.post("jobs/validate", BODY), variant)["estimate"]
    seconds, price = found["simSeconds"], found["credits"]
    assert 0 < seconds["low"] < seconds["expected"] < seconds["high"]
    for name in ("low", "expected", "high"):
        assert price[name] == 32 * math.ceil(seconds[name])
    assert found["basis"] == {"jobs": 1, "ownJobs": True, "sameBuild": False}


@only_in("C")
def test_an_estimate_costs_at_most_the_cap(api: Api, variant: str, account: Account) -> None:
    end_job(account)
    body = body_with("profile.text", PROFILE + "iterations=50000\n") | {"runtime": {"maxCredits": 33}}
    found = checked(api.post("jobs/validate", body), variant)
    assert found["runtime"]["ceiling"]["runtimeSeconds"] == 1
    assert found["estimate"]["simSeconds"]["high"] > 1
    assert found["estimate"]["credits"]["high"] == 33


def test_warnings_are_those_of_the_submission(api: Api, variant: str) -> None:
    body = body_with("profile.text", PROFILE + "iterations=9999999\n")
    found = checked(api.post("jobs/validate", body), variant)
    assert found["warnings"] == api.post("jobs", body).json()["warnings"] != []


@only_in("C")
def test_deprecations_are_those_of_the_submission(api: Api, variant: str) -> None:
    body = body_with("runtime.maxRuntimeSeconds", 60)
    found = checked(api.post("jobs/validate", body), variant)
    assert found["deprecations"] == api.post("jobs", body).json()["deprecations"] != []


def test_a_full_queue_is_a_refusal(api: Api, variant: str, settings: Settings) -> None:
    settings.MAX_QUEUE_LENGTH = 1
    make_job()
    forecast.publish()
    found = checked(api.post("jobs/validate", BODY), variant)
    assert found["refusal"] == as_refusal(api.post("jobs", BODY))
    assert found["refusal"]["code"] == "queue_unavailable"


@pytest.mark.parametrize("send", UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_request_gets_the_error_of_the_submission(api: Api, send: Callable[[Api, str], Any]) -> None:
    assert as_refusal(send(api, "jobs/validate")) == as_refusal(send(api, "jobs"))


def test_dry_runs_have_a_limit_of_their_own(api: Api, account: Account) -> None:
    type(account.plan).objects.update(submissions_per_minute=2)
    statuses = [api.post("jobs/validate", BODY).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert api.post("jobs/validate", BODY).json()["meta"] == {"scope": "developer", "limit": "checks"}
    assert api.post("jobs", BODY).status_code == 200


def test_the_bytes_of_dry_runs_are_limited(api: Api, account: Account) -> None:
    type(account.plan).objects.update(submission_bytes_per_minute=500)
    body = body_with("profile.text", PROFILE + "#" * 400)
    answers = [api.post("jobs/validate", body) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 429]
    assert answers[1].json()["meta"]["limit"] == "checked_bytes"
    assert api.post("jobs", BODY).status_code == 200


def test_a_dry_run_ignores_idempotency_keys(api: Api) -> None:
    headers = {"idempotency-key": "k"}
    assert api.post("jobs/validate", BODY, headers=headers).status_code == 200
    assert "X-Idempotent-Replay" not in api.post("jobs", BODY, headers=headers).headers


def test_a_dry_run_needs_a_body(api: Api) -> None:
    assert api.get("jobs/validate").status_code == 405
