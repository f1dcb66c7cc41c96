"""The `idempotency-key` header (docs/reference/api.md#idempotency-keys)."""

import copy
from typing import Any

import pytest
from pytest_django import Settings

from billing.models import Hold
from clients.models import ApiKey
from jobs.api.submission_request import from_json
from jobs.models import Build, IdempotencyKey, Job
from jobs.submission.request import fingerprints
from tests.concurrency import at_once
from tests.conftest import Api
from tests.factories import PROFILE, make_account, make_key
from tests.jobs.api.bodies import BODY, body_with

KEY = {"idempotency-key": "order 66"}


def post(api: Api, body: dict[str, Any] = BODY, key: str = "order 66") -> Any:
    return api.post("jobs", body, headers={"idempotency-key": key})


def test_the_same_request_returns_the_same_response(api: Api) -> None:
    first, again = post(api), post(api)
    assert first.content == again.content
    assert (first.status_code, again.status_code) == (200, 200)
    assert "X-Idempotent-Replay" not in first.headers
    assert again.headers["X-Idempotent-Replay"] == "true"
    assert again.headers["Content-Type"] == "application/json"
    assert Job.objects.count() == Hold.objects.count() == 1


def test_json_and_plain_text_can_be_the_same_request(api: Api) -> None:
    first = post(api, BODY | {"runtime": {"maxRuntimeSeconds": 10}, "priority": "standard"})
    again = api.post_text("maxRuntimeSeconds=10&channel=latest&gitBranch=midnight", PROFILE, **KEY)
    assert first.content == again.content


@pytest.mark.parametrize(
    ("path", "value", "same"),
    [
        ("artifacts.json.version", 2, "2"),
        ("artifacts.json.version", "3", 3.0),
        ("runtime.maxQueueSeconds", 60, 60.0),
    ],
)
def test_two_spellings_of_a_value_are_the_same_request(api: Api, path: str, value: Any, same: Any) -> None:
    assert post(api, body_with(path, value)).content == post(api, body_with(path, same)).content


def test_an_empty_webhook_is_the_same_as_none(api: Api) -> None:
    assert post(api).content == post(api, BODY | {"webhook": {}}).content


def test_metadata_does_not_change_the_request(api: Api) -> None:
    assert post(api).content == post(api, BODY | {"metadata": {"try": "2"}}).content


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("build.channel", "weekly"),
        ("build.id", "6d6a3c5e-0a4f-4a50-8d6e-2f0c7b5f7a11"),
        ("profile.text", PROFILE + "\n"),
        ("priority", "high"),
        ("priority", "background"),
        ("runtime.maxRuntimeSeconds", 10),
        ("runtime.maxQueueSeconds", 10),
        ("runtime.multiStage", True),
        ("artifacts.html", True),
        ("artifacts.csv", True),
        ("artifacts.json.version", 3),
        ("webhook.events", ["job.terminal"]),
        ("credentials", {"bnetClientId": "a" * 32, "bnetClientSecret": "b" * 32}),
    ],
)
def test_a_different_request_with_the_key_conflicts(api: Api, path: str, value: Any) -> None:
    job_id = post(api).json()["id"]
    response = post(api, body_with(path, value))
    assert (response.status_code, response.json()["code"]) == (409, "idempotency_key_reuse")
    meta = response.json()["meta"]
    assert set(meta) == {"reason", "originalJobId", "docsUrl"}
    assert meta["originalJobId"] == job_id
    assert Job.objects.count() == 1


def with_secret(secret: str = "b" * 32) -> dict[str, Any]:
    """Return the body of a request with game credentials."""
    return body_with("credentials", {"bnetClientId": "a" * 32, "bnetClientSecret": secret})


def test_other_credentials_are_a_different_request(api: Api) -> None:
    first = post(api, with_secret())
    assert post(api, with_secret()).content == first.content
    assert post(api, with_secret("c" * 32)).json()["code"] == "idempotency_key_reuse"


def test_credentials_cannot_be_guessed_from_the_database(api: Api, settings: Settings) -> None:
    """Every other part of the fingerprint is in the database, but not the key."""
    post(api, with_secret())
    settings.SECRET_KEY = "a guess"
    settings.SECRET_KEY_FALLBACKS = []
    stored = IdempotencyKey.objects.get().fingerprint
    assert stored not in fingerprints(from_json(with_secret()))


def test_a_request_is_replayed_after_the_key_was_rotated(api: Api, settings: Settings) -> None:
    first = post(api, with_secret())
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "a new key", [settings.SECRET_KEY]
    assert post(api, with_secret()).content == first.content
    assert post(api, with_secret("c" * 32)).status_code == 409
    batch = {"jobs": [with_secret(), BODY]}
    first = api.post("jobs/batch", batch, headers={"idempotency-key": "batch"})
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another key", ["a new key"]
    again = api.post("jobs/batch", batch, headers={"idempotency-key": "batch"})
    assert [entry["job"]["id"] for entry in again.json()["jobs"]] == [
        entry["job"]["id"] for entry in first.json()["jobs"]
    ]


def test_fingerprints_do_not_change_between_releases() -> None:
    # Idempotency keys are kept as long as their jobs, so fingerprints must not change between releases.
    (only,) = set(fingerprints(from_json(BODY)))
    assert only.startswith("3dc46f44bbd2a811")


def test_idempotency_keys_belong_to_an_api_key(api: Api) -> None:
    other = Api(make_key()[1])
    assert post(api).json()["id"] != post(other).json()["id"]


def test_a_replay_ignores_later_changes(api: Api, key: tuple[ApiKey, str]) -> None:
    first = post(api)
    plan = key[0].client.account.plan
    plan.max_active_jobs, plan.max_variants, plan.max_queue_seconds, plan.default_queue_seconds = 0, 0, 1, 1
    plan.save()
    Build.objects.all().delete()
    assert post(api).content == first.content


def test_a_rejected_request_does_not_use_its_key(api: Api) -> None:
    assert post(api, body_with("profile.text", "html=/tmp/x")).status_code == 422
    assert post(api).status_code == 200


@pytest.mark.parametrize("sent", ["", "x" * 256, "né", "tab\there"], ids=["empty", "long", "accent", "tab"])
def test_a_key_has_1_to_255_printable_ascii_characters(api: Api, sent: str) -> None:
    response = post(api, key=sent)
    assert response.json()["meta"]["issues"][0]["path"] == "idempotency-key"
    assert not Job.objects.exists()


def test_the_longest_key_is_stored_in_full(api: Api) -> None:
    assert post(api, key="x" * 255).status_code == 200
    assert IdempotencyKey.objects.get().key == "x" * 255


def test_one_of_many_concurrent_requests_creates_the_job(transactional_db: None) -> None:
    secret = make_key(make_account())[1]
    responses: list[Any] = []
    at_once(12, lambda: responses.append(post(Api(secret), copy.deepcopy(BODY))))
    assert len({response.content for response in responses}) == 1
    assert sorted("X-Idempotent-Replay" in response.headers for response in responses) == [False] + [True] * 11
    assert Job.objects.count() == Hold.objects.count() == IdempotencyKey.objects.count() == 1
