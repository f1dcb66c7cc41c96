"""`POST jobs` with a plain-text body (docs/reference/api.md#plain-text)."""

from typing import Any

import pytest

from jobs.models import Job
from tests.conftest import Api
from tests.factories import PROFILE
from tests.jobs.api.bodies import only_in

CREDENTIALS = {"X-Bnet-Client-Id": "0123456789abcdef" * 2, "X-Bnet-Client-Secret": "s3cr3t!?" * 4}


def issues(response: Any) -> list[str]:
    """Return the paths in a validation error."""
    assert (response.status_code, response.json()["code"]) == (400, "validation_failed")
    return [issue["path"] for issue in response.json()["meta"]["issues"]]


def test_profile_and_channel_are_sufficient(api: Api) -> None:
    text = PROFILE + "# Ünïcode \r\n"
    response = api.post_text("channel=latest", text.encode())
    assert response.status_code == 200
    assert Job.objects.get(pk=response.json()["id"]).profile.text == text


def test_each_field_has_a_parameter(api: Api) -> None:
    query = (
        "channel=weekly&gitBranch=midnight&priority=background&multiStage=true&maxRuntimeSeconds=10"
        "&maxQueueSeconds=60&artifactsHtml=true&artifactsCsv=true&artifactsJsonVersion=3"
    )
    assert api.post_text(query, PROFILE, **CREDENTIALS).status_code == 200
    job = Job.objects.get()
    assert (job.channel, job.git_branch, job.get_priority_display()) == ("weekly", "midnight", "Background")
    assert (job.multi_stage, job.html, job.csv, job.has_credentials) == (True, True, True, True)
    assert (job.ceiling_runtime_seconds, job.ceiling_queue_seconds, job.json_version) == (10, 60, 3)
    assert job.metadata == {}


@pytest.mark.parametrize("sent", ["60", "60.0", "060"])
def test_an_integer_parameter_can_end_in_point_zero(api: Api, sent: str) -> None:
    assert api.post_text(f"channel=latest&maxQueueSeconds={sent}", PROFILE).status_code == 200
    assert Job.objects.get().ceiling_queue_seconds == 60


@only_in("C")
def test_the_credit_limit_has_a_parameter(api: Api) -> None:
    assert api.post_text("channel=latest&maxCredits=64", PROFILE).status_code == 200
    assert Job.objects.get().max_credits == 64


@only_in("R")
def test_the_other_variants_limit_is_unknown(api: Api) -> None:
    assert issues(api.post_text("channel=latest&maxCredits=64", PROFILE)) == ["maxCredits"]


@pytest.mark.parametrize("charset", ["text/plain", "text/plain; charset=utf-8", 'Text/Plain; charset="UTF-8"'])
def test_the_utf8_charset_is_accepted(api: Api, charset: str) -> None:
    assert api.post("jobs?channel=latest", PROFILE, content_type=charset).status_code == 200


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("", "channel"),
        ("channel=", "channel"),
        ("channel=daily", "channel"),
        ("channel=latest&channel=latest", "channel"),
        ("channel=latest&surprise=1", "surprise"),
        ("channel=latest&metadata=x", "metadata"),
        ("channel=latest&build.channel=latest", "build.channel"),
        ("channel=latest&multiStage=True", "multiStage"),
        ("channel=latest&multiStage=1", "multiStage"),
        ("channel=latest&artifactsHtml=", "artifactsHtml"),
        ("channel=latest&maxQueueSeconds=ten", "maxQueueSeconds"),
        ("channel=latest&maxQueueSeconds=1e-3", "maxQueueSeconds"),
        ("channel=latest&maxQueueSeconds=60.5", "maxQueueSeconds"),
        ("channel=latest&maxQueueSeconds=0", "maxQueueSeconds"),
        ("channel=latest&maxQueueSeconds=99999999999999999999999", "maxQueueSeconds"),
        ("channel=latest&artifactsJsonVersion=4", "artifactsJsonVersion"),
        ("channel=latest&buildId=none", "buildId"),
        ("channel=latest&webhookEvents=", "webhookEvents"),
        ("channel=latest&webhookEvents=job.terminal,job.started", "webhookEvents"),
    ],
)
def test_errors_name_the_query_parameter(api: Api, query: str, path: str) -> None:
    assert issues(api.post_text(query, PROFILE)) == [path]
    assert not Job.objects.exists()


def test_both_credential_headers_are_required(api: Api) -> None:
    response = api.post_text("channel=latest", PROFILE, **{"X-Bnet-Client-Id": CREDENTIALS["X-Bnet-Client-Id"]})
    assert issues(response) == ["X-Bnet-Client-Secret"]


def test_a_credential_header_of_another_length_is_named(api: Api) -> None:
    response = api.post_text("channel=latest", PROFILE, **CREDENTIALS | {"X-Bnet-Client-Secret": "short"})
    assert issues(response) == ["X-Bnet-Client-Secret"]
    assert response.json()["meta"]["issues"][0]["message"] == "Must have exactly 32 characters."


def test_a_body_that_is_not_utf8_is_rejected(api: Api) -> None:
    assert issues(api.post_text("channel=latest", b"mage=\xff\n")) == ["body"]


def test_a_nul_character_is_rejected(api: Api) -> None:
    assert issues(api.post_text("channel=latest", PROFILE + "\0")) == ["body"]


def test_other_charsets_are_rejected(api: Api) -> None:
    response = api.post("jobs?channel=latest", PROFILE, content_type="text/plain; charset=latin-1")
    assert (response.status_code, response.json()["code"]) == (415, "unsupported_media_type")


def test_an_empty_body_has_nothing_to_simulate(api: Api) -> None:
    response = api.post("jobs?channel=latest", "", CONTENT_TYPE="text/plain")
    assert response.status_code == 422
    assert "nothing to simulate" in response.json()["meta"]["message"]


@pytest.mark.parametrize(
    ("size", "code"),
    [(2 * 1024 * 1024 + 1, "profile_too_large"), ((2 << 20) + (64 << 10) + 1, "request_too_large")],
)
def test_the_size_of_the_body_is_limited(api: Api, size: int, code: str) -> None:
    response = api.post_text("channel=latest", PROFILE.ljust(size, "#"))
    assert (response.status_code, response.json()["code"]) == (413, code)


def test_a_profile_of_exactly_two_megabytes_is_accepted(api: Api) -> None:
    assert api.post_text("channel=latest", (PROFILE + "# ").ljust(2 * 1024 * 1024, "x")).status_code == 200


def test_json_requests_accept_no_query_parameters(api: Api) -> None:
    response = api.post("jobs?channel=latest", {"build": {"channel": "latest"}, "profile": {"text": PROFILE}})
    assert issues(response) == ["channel"]


def test_too_many_parameters_are_rejected(api: Api) -> None:
    response = api.post_text("&".join(f"p{n}=1" for n in range(1500)), PROFILE)
    assert (response.status_code, response.json()["code"]) == (400, "validation_failed")
