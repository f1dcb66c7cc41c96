"""Credit and time limits in both variants (docs/reference/api.md#variants)."""

from typing import Any

import pytest

from billing.models import Hold
from clients.models import ApiKey
from jobs.models import Job
from tests.conftest import Api
from tests.factories import PROFILE
from tests.jobs.api.bodies import BODY, only_in


def submit(api: Api, **runtime: float) -> Any:
    return api.post("jobs", BODY | {"runtime": runtime}).json()


def reserved_credits(body: dict[str, Any]) -> int:
    """Return the credits reserved for an accepted job."""
    return Hold.objects.get(job_id=body["id"]).credits


@only_in("C")
def test_a_credit_limit_is_reserved_in_full(api: Api) -> None:
    body = submit(api, maxCredits=100, maxQueueSeconds=60)
    assert body["runtime"]["ceiling"] == {"maxCredits": 100, "runtimeSeconds": 3, "queueSeconds": 60}
    assert reserved_credits(body) == 100
    assert "deprecations" not in body


@only_in("C")
def test_without_a_limit_only_a_slice_is_reserved(api: Api) -> None:
    body = submit(api)
    assert body["runtime"]["ceiling"] == {"maxCredits": 57_600, "runtimeSeconds": 1800, "queueSeconds": 1800}
    assert reserved_credits(body) == 60 * 32
    assert Job.objects.get().max_credits is None


@only_in("C")
def test_a_time_limit_is_deprecated(api: Api) -> None:
    body = submit(api, maxRuntimeSeconds=10)
    assert body["runtime"]["ceiling"]["maxCredits"] == reserved_credits(body) == 320
    (deprecation,) = body["deprecations"]
    assert set(deprecation) == {"field", "message", "docsUrl"}
    assert deprecation["field"] == "runtime.maxRuntimeSeconds"
    assert "runtime.maxCredits" in deprecation["message"]


@only_in("C")
def test_only_one_limit_is_allowed(api: Api) -> None:
    body = submit(api, maxRuntimeSeconds=10, maxCredits=320)
    paths = [issue["path"] for issue in body["meta"]["issues"]]
    assert paths == ["runtime.maxCredits", "runtime.maxRuntimeSeconds"]


@only_in("C")
@pytest.mark.parametrize("credits_sent", [1, 31, 31.0, 0, -5])
def test_a_limit_below_one_second_is_refused(api: Api, credits_sent: int) -> None:
    body = submit(api, maxCredits=credits_sent)
    message = "Must be at least 32, the price of one second."
    assert (body["code"], body["meta"]["issues"]) == (
        "validation_failed", [{"path": "runtime.maxCredits", "message": message}],
    )  # fmt: skip
    dry = api.post("jobs/validate", BODY | {"runtime": {"maxCredits": credits_sent}}).json()
    assert (dry["valid"], dry["refusal"]["meta"]["issues"]) == (False, body["meta"]["issues"])
    text = api.post_text(f"channel=latest&maxCredits={credits_sent}", PROFILE).json()
    assert text["meta"]["issues"] == [{"path": "maxCredits", "message": message}]
    assert not Job.objects.exists()


@only_in("C")
@pytest.mark.parametrize(("credits_sent", "seconds"), [(32, 1), (33, 1), (63, 1), (64, 2), (1000, 31)])
def test_a_limit_says_what_it_buys(api: Api, credits_sent: int, seconds: int) -> None:
    body = submit(api, maxCredits=credits_sent)
    assert body["runtime"]["ceiling"]["maxCredits"] == reserved_credits(body) == credits_sent
    assert body["runtime"]["ceiling"]["runtimeSeconds"] == seconds


@only_in("C")
def test_the_smallest_limit_depends_on_the_plan(api: Api, key: tuple[ApiKey, str]) -> None:
    type(key[0].client.account.plan).objects.update(credits_per_second=1_500)
    (issue,) = submit(api, maxCredits=1_499)["meta"]["issues"]
    assert issue["message"] == "Must be at least 1,500, the price of one second."
    assert submit(api, maxCredits=1_500)["runtime"]["ceiling"]["runtimeSeconds"] == 1


@pytest.mark.parametrize("seconds", [1, 1.5])
def test_a_limit_of_one_second_is_accepted(api: Api, seconds: float) -> None:
    body = submit(api, maxRuntimeSeconds=seconds)
    assert body["runtime"]["ceiling"]["runtimeSeconds"] == 1
    assert reserved_credits(body) == 32


@only_in("R")
def test_a_time_limit_is_reserved_in_full(api: Api) -> None:
    body = submit(api, maxRuntimeSeconds=10)
    assert body["runtime"]["ceiling"] == {"maxCredits": None, "runtimeSeconds": 10, "queueSeconds": 1800}
    assert reserved_credits(body) == 320
    assert "deprecations" not in body


@only_in("R")
def test_without_a_limit_a_job_can_run_for_five_minutes(api: Api) -> None:
    body = submit(api)
    assert body["runtime"]["ceiling"]["runtimeSeconds"] == 300
    assert reserved_credits(body) == 300 * 32


@only_in("R")
def test_the_default_does_not_exceed_the_plan(api: Api, key: tuple[ApiKey, str]) -> None:
    plan = key[0].client.account.plan
    plan.max_credits_per_job = 320
    plan.max_queue_seconds = plan.default_queue_seconds = 60
    plan.save()
    ceiling = submit(api)["runtime"]["ceiling"]
    assert (ceiling["runtimeSeconds"], ceiling["queueSeconds"]) == (10, 60)


@only_in("R")
def test_a_credit_limit_is_an_unknown_field(api: Api) -> None:
    (issue,) = submit(api, maxCredits=100)["meta"]["issues"]
    assert issue == {"path": "runtime.maxCredits", "message": "Unknown field."}


@pytest.mark.parametrize(("name", "maximum"), [("maxRuntimeSeconds", 1800), ("maxQueueSeconds", 86_400)])
def test_the_error_for_a_high_limit_names_the_plans_limit(api: Api, name: str, maximum: int) -> None:
    (issue,) = submit(api, **{name: maximum + 1})["meta"]["issues"]
    assert issue["path"] == f"runtime.{name}"
    assert f"{maximum:,}" in issue["message"]
    assert submit(api, **{name: maximum})["success"] is True
