"""Nulls and empty objects, which mean the same as absent fields, and numbers of seconds."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from jobs.api.submission_request import SubmissionFields, from_json
from jobs.models import Job
from tests.conftest import Api
from tests.factories import PROFILE
from tests.jobs.api.bodies import BODY, body_with, only_in

NO_CREDENTIALS: list[Any] = [None, {}, {"bnetClientId": None}, {"bnetClientId": None, "bnetClientSecret": None}]


def optional_paths(fields: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return the paths of all fields that are not required, those of nested objects included."""
    paths = []
    for name, field in fields.items():
        if not field.required:
            paths.append(prefix + name)
        paths += optional_paths(getattr(field, "fields", {}), f"{prefix}{name}.")
    return paths


def paths_of(response: Any) -> list[str]:
    assert (response.status_code, response.json()["code"]) == (400, "validation_failed")
    return [issue["path"] for issue in response.json()["meta"]["issues"]]


def test_null_means_the_same_as_an_absent_field() -> None:
    paths = optional_paths(SubmissionFields().fields)
    assert {"runtime", "runtime.maxQueueSeconds", "build.id", "artifacts.json.version"} <= {*paths}
    for path in paths:
        assert from_json(body_with(path, None)) == from_json(BODY), path


@pytest.mark.parametrize("path", ["runtime", "credentials", "webhook.events", "build.id", "metadata", "priority"])
def test_a_null_is_accepted_in_every_form_of_submission(api: Api, path: str) -> None:
    body = body_with(path, None)
    assert api.post("jobs", body).status_code == 200
    assert api.post("jobs/validate", body).status_code == 200
    assert api.post("jobs/batch", {"jobs": [body]}).json()["jobs"][0]["refusal"] is None


@pytest.mark.parametrize("path", ["build", "build.channel", "profile", "profile.text"])
def test_a_required_field_must_not_be_null(api: Api, path: str) -> None:
    assert paths_of(api.post("jobs", body_with(path, None))) == [path]


@pytest.mark.parametrize("path", ["surprise", "build.surprise", "runtime.surprise", "credentials.surprise"])
def test_an_unknown_field_is_refused_even_if_it_is_null(api: Api, path: str) -> None:
    assert path in paths_of(api.post("jobs", body_with(path, None)))


def test_an_entry_of_the_metadata_must_not_be_null(api: Api) -> None:
    assert paths_of(api.post("jobs", body_with("metadata.note", None))) == ["metadata.note"]


@pytest.mark.parametrize("webhook", [{}, {"events": []}, {"events": None}, None])
def test_an_empty_webhook_means_no_events(api: Api, webhook: Any) -> None:
    assert api.post("jobs", BODY | {"webhook": webhook}).status_code == 200
    assert not Job.objects.get().wants_webhook


@pytest.mark.parametrize("credentials", NO_CREDENTIALS)
def test_empty_credentials_mean_none(api: Api, credentials: Any) -> None:
    assert api.post("jobs", BODY | {"credentials": credentials}).status_code == 200
    assert not Job.objects.get().has_credentials


@pytest.mark.parametrize(
    "credentials", [{"bnetClientId": "x" * 32}, {"bnetClientId": "x" * 32, "bnetClientSecret": None}]
)
def test_half_a_pair_names_the_missing_half(api: Api, credentials: Any) -> None:
    response = api.post("jobs", BODY | {"credentials": credentials})
    assert paths_of(response) == ["credentials.bnetClientSecret"]
    assert "together, or neither" in response.json()["meta"]["issues"][0]["message"]


def send_seconds(api: Api, sent: str) -> Any:
    """Submit a job with the JSON text of its limit in seconds."""
    return api.post("jobs", json.dumps(body_with("runtime.maxRuntimeSeconds", "SENT")).replace('"SENT"', sent))


@pytest.mark.parametrize(("sent", "seconds"), [("60.5", 60), ("60.999", 60), ("60.0", 60), ("1.9", 1)])
def test_fractions_of_seconds_are_rounded_down(api: Api, sent: str, seconds: int) -> None:
    response = send_seconds(api, sent)
    assert response.json()["runtime"]["ceiling"]["runtimeSeconds"] == seconds
    assert Job.objects.get().ceiling_credits == 32 * seconds


def test_fractions_of_seconds_are_accepted_as_parameters(api: Api) -> None:
    response = api.post_text("channel=latest&maxRuntimeSeconds=60.5", PROFILE)
    assert response.json()["runtime"]["ceiling"]["runtimeSeconds"] == 60


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ("0.5", "Must be at least 1."),
        ("-0.5", "Must be at least 1."),
        ("1e-300", "Must be at least 1."),
        ("1e400", "Must be a number of seconds."),
        ("-1e400", "Must be a number of seconds."),
        ('"60.5"', "Must be a number of seconds."),
        ("true", "Must be a number of seconds."),
        ("[60]", "Must be a number of seconds."),
        ("1e300", "Must be at most 1,800, your plan's limit."),
        ("1800.5e3", "Must be at most 1,800, your plan's limit."),
    ],
)
def test_other_numbers_of_seconds_are_refused(api: Api, sent: str, message: str) -> None:
    response = send_seconds(api, sent)
    assert response.json()["meta"]["issues"] == [{"path": "runtime.maxRuntimeSeconds", "message": message}]


@pytest.mark.parametrize("query", ["maxRuntimeSeconds=0.5", "maxRuntimeSeconds=x", "maxQueueSeconds=60.5"])
def test_other_parameters_of_seconds_are_refused(api: Api, query: str) -> None:
    assert paths_of(api.post_text(f"channel=latest&{query}", PROFILE)) == [query.partition("=")[0]]


@only_in("C")
def test_a_limit_in_credits_stays_an_integer(api: Api) -> None:
    (issue,) = api.post("jobs", body_with("runtime.maxCredits", 64.5)).json()["meta"]["issues"]
    assert issue == {"path": "runtime.maxCredits", "message": "Must be an integer."}
