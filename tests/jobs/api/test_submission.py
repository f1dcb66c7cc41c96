"""`POST jobs` with a JSON body (docs/reference/api.md#submit-a-job)."""

import codecs
import gzip
import json
import time
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import InterfaceError, OperationalError
from rest_framework.serializers import ValidationError

from billing.models import Plan
from clients.models import ApiKey
from jobs.api.submission_request import SubmissionFields, credential_field, from_json
from jobs.enums import Status
from jobs.errors import ActiveJobLimitReached
from jobs.lifecycle import job_moves
from jobs.models import Job, JobEvent
from jobs.results import queries
from jobs.submission.accept import submit
from jobs.submission.idempotency import ByIdempotencyKey
from jobs.submission.validation import Sender
from tests.concurrency import at_once
from tests.conftest import Api
from tests.factories import PROFILE, make_account, make_job, make_key
from tests.jobs.api.bodies import BODY, body_with


def test_the_response_contains_limits_and_links(api: Api) -> None:
    response = api.post("jobs", BODY | {"metadata": {"guild": "Ünïcode"}})
    assert response.status_code == 200
    body = response.json()
    assert body["success"] is True
    assert set(body["runtime"]["ceiling"]) == {"maxCredits", "runtimeSeconds", "queueSeconds"}
    assert body["runtime"]["priorityFeeCredits"] == 0
    assert body["metadata"] == {"guild": "Ünïcode"}
    assert len(body["id"]) == 18
    assert list(body["links"]) == ["share"]


def test_a_later_change_of_the_plan_does_not_change_a_jobs_slots(api: Api) -> None:
    Plan.objects.update(max_parallel_slots=8)
    job_id = api.post("jobs", BODY).json()["id"]
    Plan.objects.update(max_parallel_slots=2)
    assert Job.objects.get(pk=job_id).parallel_slots == 8


def test_the_profile_is_stored_exactly_as_sent(api: Api) -> None:
    text = '  mage="Å"\r\n\tlevel=80   \n\n'
    job = Job.objects.get(pk=api.post("jobs", body_with("profile.text", text)).json()["id"])
    assert job.profile.text == text


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_database_failure_after_acceptance_is_no_error(
    api: Api, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    monkeypatch.setattr(job_moves, "mark_queued", Mock(side_effect=error))
    response = api.post("jobs", BODY)
    assert (response.status_code, response.json()["id"]) == (200, str(Job.objects.get().pk))
    assert response.headers["X-Active-Jobs"] == "1"


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_read_succeeds_if_active_jobs_cannot_be_counted(
    api: Api, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    monkeypatch.setattr(queries, "active_jobs", Mock(side_effect=error))
    assert api.get("jobs").status_code == 200


def test_an_accepted_job_is_announced_and_recorded(api: Api) -> None:
    job = Job.objects.get(pk=api.post("jobs", BODY).json()["id"])
    assert job.status == Status.QUEUED
    moves = JobEvent.objects.filter(job=job).order_by("id").values_list("from_status", "to_status")
    assert list(moves) == [("", "pending"), ("pending", "queued")]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("surprise", 1),
        ("build.surprise", 1),
        ("build.channel", "daily"),
        ("build.channel", None),
        ("build.gitBranch", "shadowlands"),
        ("build", "latest"),
        ("profile", {}),
        ("profile.text", 5),
        ("profile.text", "mage=\0"),
        ("profile.text", "mage=\ud800"),
        ("priority", "urgent"),
        ("priority", ["high"]),
        ("runtime.maxCredits", 57_601),
        ("runtime.maxCredits", 10**30),
        ("runtime.maxRuntimeSeconds", "100"),
        ("runtime.maxRuntimeSeconds", 0.5),
        ("runtime.maxRuntimeSeconds", True),
        ("runtime.maxRuntimeSeconds", 0),
        ("runtime.maxRuntimeSeconds", 1_801),
        ("runtime.maxRuntimeSeconds", 10**30),
        ("runtime.multiStage", "true"),
        ("runtime.maxQueueSeconds", -1),
        ("runtime.maxQueueSeconds", 86_401),
        ("artifacts.html", "true"),
        ("artifacts.html", 1),
        ("artifacts.csv", "yes"),
        ("credentials", {"bnetClientId": "only half"}),
        ("credentials.bnetClientId", ""),
        ("credentials", {"bnetClientId": "x" * 257, "bnetClientSecret": "y" * 32}),
        ("credentials", {"bnetClientId": "two lines" + "x" * 23, "bnetClientSecret": "y" * 32}),
        ("artifacts.json.version", 4),
        ("artifacts.json.version", "4"),
        ("artifacts.json.version", "2.0"),
        ("artifacts.json.version", 2.5),
        ("artifacts.json.version", True),
        ("artifacts.json.version", [2]),
        ("webhook", []),
        ("webhook.events", [None]),
        ("webhook.events", ["job.started"]),
        ("metadata", []),
        ("metadata.number", 1),
        ("metadata.long", "x" * 501),
        ("metadata.nul", "\0"),
    ],
)
def test_an_invalid_field_is_rejected_with_its_path(api: Api, path: str, value: Any) -> None:
    response = api.post("jobs", body_with(path, value))
    assert response.status_code == 400
    assert response.json()["code"] == "validation_failed"
    paths = [issue["path"] for issue in response.json()["meta"]["issues"]]
    assert any(reported and (reported.startswith(path) or path.startswith(reported)) for reported in paths)
    assert not Job.objects.exists()


ODD_CREDENTIALS = {
    "empty": ("", "Must have exactly 32 characters."),
    "short": ("x" * 31, "Must have exactly 32 characters."),
    "long": ("x" * 33, "Must have exactly 32 characters."),
    "line break": ("x" * 31 + "\n", "Must contain only printable ASCII characters, without spaces or colons."),
    "colon": ("x" * 31 + ":", "Must contain only printable ASCII characters, without spaces or colons."),
    "umlaut": ("x" * 31 + "ü", "Must contain only printable ASCII characters, without spaces or colons."),
}


@pytest.mark.parametrize(("value", "message"), ODD_CREDENTIALS.values(), ids=ODD_CREDENTIALS)
@pytest.mark.parametrize("name", ["bnetClientId", "bnetClientSecret"])
def test_credentials_the_simulator_cannot_take_are_refused(api: Api, name: str, value: str, message: str) -> None:
    pair = {"bnetClientId": "a" * 32, "bnetClientSecret": "b" * 32}
    assert api.post("jobs", body_with("credentials", pair)).status_code == 200
    response = api.post("jobs", body_with("credentials", pair | {name: value}))
    assert (response.status_code, response.json()["code"]) == (400, "validation_failed")
    assert response.json()["meta"]["issues"] == [{"path": f"credentials.{name}", "message": message}]
    assert Job.objects.count() == 1


def test_the_accepted_length_of_credentials_is_a_setting() -> None:
    with pytest.raises(ValidationError, match=r"Must have exactly 40 characters\."):
        credential_field(length=40).run_validation("x" * 32)
    assert credential_field(length=40).run_validation("x" * 40) == "x" * 40


@pytest.mark.parametrize(("sent", "version"), [("2", 2), (2, 2), (2.0, 2), ("3", 3), (3, 3)])
def test_a_report_version_is_a_string_or_a_number(api: Api, sent: Any, version: int) -> None:
    assert api.post("jobs", body_with("artifacts.json.version", sent)).status_code == 200
    assert Job.objects.get().json_version == version


@pytest.mark.parametrize("sent", ["60.0", "6e1", "60.000", "600E-1"])
def test_an_integer_can_end_in_point_zero(api: Api, sent: str) -> None:
    body = json.dumps(body_with("runtime.maxQueueSeconds", "SENT")).replace('"SENT"', sent)
    assert api.post("jobs", body).status_code == 200
    assert Job.objects.get().ceiling_queue_seconds == 60


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ("60.5", "validation_failed"),
        ("1e400", "validation_failed"),
        ("-1e400", "validation_failed"),
        ("1e999999999", "validation_failed"),
        ("1e-999999999", "validation_failed"),
        ("1e300", "validation_failed"),
        ("true", "validation_failed"),
        ('"60"', "validation_failed"),
        ("NaN", "invalid_json"),
        ("Infinity", "invalid_json"),
    ],
)
def test_non_integers_are_rejected_quickly(api: Api, sent: str, code: str) -> None:
    body = json.dumps(body_with("runtime.maxQueueSeconds", "SENT")).replace('"SENT"', sent)
    started = time.process_time()
    response = api.post("jobs", body)
    assert (response.status_code, response.json()["code"]) == (400, code)
    assert time.process_time() - started < 1


def test_an_empty_webhook_requests_no_events(api: Api) -> None:
    assert api.post("jobs", body_with("webhook", {})).status_code == 200
    assert not Job.objects.get().wants_webhook


@pytest.mark.parametrize(
    "metadata",
    [
        {f"k{n}": "" for n in range(21)},
        {"k" * 65: ""},
        {"": "empty"},
        {"\ud800": ""},
        {f"key-{n}": "é" * 400 for n in range(16)},
    ],
    ids=["entries", "key length", "empty key", "surrogate key", "bytes in all"],
)
def test_metadata_has_limits(api: Api, metadata: dict[str, str]) -> None:
    assert api.post("jobs", BODY | {"metadata": metadata}).json()["code"] == "validation_failed"


@pytest.mark.parametrize("body", [[], "text", 5, None, {}])
def test_a_body_that_is_not_an_object_is_rejected(api: Api, body: Any) -> None:
    assert api.post("jobs", json.dumps(body)).json()["code"] == "validation_failed"


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1, "a": 2}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"n": ' + b"1" * 5000 + b"}",
    ],
)
def test_invalid_json_is_rejected(api: Api, body: bytes) -> None:
    response = api.post("jobs", body)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_json")


def test_all_invalid_fields_are_reported_together(api: Api) -> None:
    response = api.post("jobs", {"surprise": 1, "build": {"channel": "latest", "x": 1}, "profile": {"text": 5}})
    paths = [issue["path"] for issue in response.json()["meta"]["issues"]]
    assert sorted(paths) == ["build.x", "profile.text", "surprise"]


def test_a_long_list_is_rejected_before_its_entries_are_read(api: Api) -> None:
    response = api.post("jobs", body_with("webhook.events", ["x"] * 11))
    assert response.json()["meta"]["issues"] == [
        {"path": "webhook.events", "message": "Must have at most 10 entries."}
    ]


def test_only_reported_unknown_fields_are_read() -> None:
    form = SubmissionFields(data={f"{n}": 0 for n in range(1000)})
    assert not form.is_valid()
    assert set(form.errors) == {f"{n}" for n in range(100)} | {"build", "profile"}


def test_errors_stay_small_for_any_request(api: Api) -> None:
    response = api.post("jobs", {f"\ud800{n}" + "x" * 10_000: 1 for n in range(200)})
    assert response.json()["code"] == "validation_failed"
    assert len(response.json()["meta"]["issues"]) == 100
    assert len(response.content) < 100_000


@pytest.mark.parametrize(("size", "status"), [(2 * 1024 * 1024, 200), (2 * 1024 * 1024 + 1, 413)])
def test_profiles_are_limited_in_bytes_of_utf8(api: Api, size: int, status: int) -> None:
    text = PROFILE + "# " + "é" * ((size - len(PROFILE) - 2) // 2)
    text += "x" * (size - len(text.encode()))
    response = api.post("jobs", json.dumps(body_with("profile.text", text), ensure_ascii=False).encode())
    assert response.status_code == status
    assert response.json().get("code", "profile_too_large") == "profile_too_large"


@pytest.mark.parametrize(
    "content_type",
    ["text/csv", "application/json; charset=latin-1", "multipart/form-data", "*/*", "application/*", "text/*"],
)
def test_other_media_types_are_rejected(api: Api, content_type: str) -> None:
    response = api.http.post("/v1/sim/jobs", b"x", content_type=content_type)
    assert (response.status_code, response.json()["code"]) == (415, "unsupported_media_type")


def test_the_error_names_the_media_types_of_the_endpoint(api: Api) -> None:
    response = api.http.post("/v1/sim/jobs", b"x", content_type="text/csv")
    message = "Send Content-Type: application/json, or text/plain for a bare profile."
    assert response.json()["error"] == message


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_compressed_bodies_are_rejected(api: Api, content_type: str) -> None:
    body = gzip.compress(json.dumps(BODY).encode())
    response = api.post("jobs", body, content_type=content_type, headers={"content-encoding": "gzip"})
    assert (response.status_code, response.json()["code"]) == (415, "unsupported_media_type")
    message = "Compressed bodies are not supported. Send the body without Content-Encoding."
    assert response.json()["error"] == message


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
def test_an_uncompressed_body_may_say_so(api: Api, encoding: str) -> None:
    assert api.post("jobs", BODY, headers={"content-encoding": encoding}).status_code == 200


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (None, ""),
        ([], ""),
        ("text", ""),
        (body_with("runtime", 5), "runtime"),
        (body_with("build", []), "build"),
    ],
)
def test_what_must_be_an_object_is_named(api: Api, body: Any, path: str) -> None:
    response = api.post("jobs", json.dumps(body))
    assert response.json()["meta"]["issues"] == [{"path": path, "message": "Must be an object."}]


def test_a_byte_order_mark_is_rejected(api: Api) -> None:
    response = api.post("jobs", codecs.BOM_UTF8 + json.dumps(BODY).encode())
    assert (response.status_code, response.json()["code"]) == (400, "invalid_json")
    assert response.json()["error"] == "The body must not begin with a byte order mark."


def test_webhook_events_need_a_configured_webhook(api: Api) -> None:
    response = api.post("jobs", body_with("webhook.events", ["job.terminal"]))
    assert (response.status_code, response.json()["code"]) == (400, "webhook_not_configured")
    assert not Job.objects.exists()


def test_unfinished_jobs_of_an_account_are_limited(api: Api, key: tuple[ApiKey, str]) -> None:
    plan = key[0].client.account.plan
    plan.max_active_jobs = 1
    plan.save(update_fields=["max_active_jobs"])
    make_job(key[0].client)
    response = api.post("jobs", BODY)
    assert (response.status_code, response.json()["code"]) == (429, "max_active_jobs_exceeded")
    meta = {"reason": "max_active_jobs_exceeded", "maxActiveJobs": 1, "activeJobs": 1}
    assert response.json()["meta"] == meta
    assert (response.headers["X-Active-Jobs"], response.headers["X-Max-Active-Jobs"]) == ("1", "1")
    assert 0 < int(response.headers["Retry-After"]) <= 60


def test_concurrent_submissions_do_not_exceed_the_limit(transactional_db: None) -> None:
    key = make_key(make_account(max_active_jobs=3))[0]
    submission = from_json(BODY)
    outcomes: list[bool] = []

    def submit_once() -> None:
        try:
            fresh_key = ApiKey.objects.select_related("client__account__plan").get(pk=key.pk)
            submit(
                submission,
                sender=Sender(fresh_key.client, fresh_key),
                once=ByIdempotencyKey(fresh_key, None, submission, render=str),
            )
            outcomes.append(True)
        except ActiveJobLimitReached:
            outcomes.append(False)

    at_once(8, submit_once)
    assert sorted(outcomes) == [False] * 5 + [True] * 3
    assert Job.objects.count() == 3


def test_all_exceeded_limits_are_reported_together(api: Api) -> None:
    body = {"build": {"channel": "daily", "chanel": "latest"}, "profile": {}, "runtime": {"multiStage": 1}, "x": 1}
    paths = {issue["path"] for issue in api.post("jobs", body).json()["meta"]["issues"]}
    assert paths == {"build.channel", "build.chanel", "profile.text", "runtime.multiStage", "x"}
