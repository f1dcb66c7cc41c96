"""Every response of every endpoint, checked against the handwritten contract and the OpenAPI document."""

import json
import re
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client as HttpClient
from django.utils import timezone
from jsonschema import Draft202012Validator, FormatChecker, ValidationError

from billing import ledger
from billing.models import GrantReason
from clients.accounts import default_client
from clients.audit import SYSTEM
from clients.models import ApiKey
from jobs import cancellation, lifecycle, webhook_events
from jobs.builds import registration
from jobs.enums import Channel, Status
from jobs.lifecycle import CANCELLED, Outcome
from jobs.management.commands.seedlocal import MINISIM, MINISIM_ORIGIN, MINISIM_READS
from jobs.models import Job
from jobs.progress import LISTED_ENTRIES, LogEntry, Progress, Publisher, StageProgress
from jobs.queueing import forecast
from simservice.api.examples import family
from simservice.api.openapi import document
from tests.conftest import Api
from tests.dashboard.summaries import make_completed_job, make_failed_job
from tests.factories import PROFILE, BuildFactory, make_job, make_key, make_running_job
from tests.jobs.api import contract
from tests.jobs.api.bodies import BODY, body_with, only_in
from tests.jobs.api.test_error_table import CASES, Scene, scene
from tests.jobs.simulators import RUN_UNTIL_ASKED, make_stand_in, run
from webhooks import endpoints
from webhooks.models import Event

__all__ = ["scene"]
PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
SETS = "".join(f"profileset.s{number}+=trinket1=stone,id=1,ilevel={600 + 12 * number}\n" for number in range(6))
GEAR = (
    'mage="A"\nlevel=80\nspec=frost\ntalents=CAEA\nhead=hood,id=1,ilevel=600,bonus_id=1/2,gem_id=3,enchant_id=4\n'
)
PROFILES: dict[str, dict[str, Any]] = {
    "one actor": {"text": f"{GEAR}iterations=20\n", "html": True, "csv": True},
    "profilesets": {"text": f"{GEAR}iterations=20\n{SETS}"},
    "several actors": {"text": 'mage="A"\nwarrior="B"\niterations=20\n', "csv": True},
    "stages": {"text": f"{GEAR}target_error=0.4\n{SETS}", "multi_stage": True, "html": True, "csv": True},
}


def whole(answer: Any) -> Any:
    """Return an answer's body as it was sent."""
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    assert answer.headers["Content-Type"] == "application/json"
    return json.loads(content)


def documented(answer: Any) -> tuple[str, Any]:
    """Return the operation that answered, and what the document says of an answer of this status."""
    path = "/" + PARAMETER.sub(r"{\1}", answer.resolver_match.route)
    operation = document()["paths"][path].get(answer.wsgi_request.method.lower())
    if operation is None:
        assert answer.status_code == 405
        return "", {"$ref": "#/components/schemas/Error"}
    told = operation["responses"][str(answer.status_code)]["content"]["application/json"]
    return operation["operationId"], told["schema"]


def check_document(value: Any, schema: Any) -> None:
    resolved = {**schema, "components": document()["components"]}
    Draft202012Validator(resolved, format_checker=FormatChecker()).validate(value)


def right(answer: Any, variant: str) -> Any:
    """Return an answer's body after checking it against contract and document."""
    body = whole(answer)
    operation, schema = documented(answer)
    check_document(body, schema)
    if answer.status_code == 200:
        contract.check(body, contract.answers(variant)[operation])
    else:
        contract.check(body, contract.error(answer.status_code, body["code"]))
    return body


@pytest.fixture
def account(key: tuple[ApiKey, str]) -> Any:
    return key[0].client.account


def starting(**fields: Any) -> Job:
    """Return a job that a worker prepares."""
    job = make_job(**fields)
    assert lifecycle.start_attempt(job, worker="worker-1")
    return job


def queued(**fields: Any) -> Job:
    job = make_job(**fields)
    assert lifecycle.mark_queued(job)
    return job


def timed_out(**fields: Any) -> Job:
    job = make_running_job(**fields)
    ended = Outcome(status=Status.TIMED_OUT, error_code="execution_timeout", reason="It took too long.")
    assert lifecycle.finish(job, ended)
    return job


def cancelled(**fields: Any) -> Job:
    job = make_job(**fields)
    assert lifecycle.finish(job, CANCELLED)
    return job


STATES: dict[str, Callable[..., Job]] = {
    "pending": make_job,
    "queued": queued,
    "starting": starting,
    "running": make_running_job,
    "completed": make_completed_job,
    "failed": make_failed_job,
    "timed_out": timed_out,
    "cancelled": cancelled,
}
SHOWN = {"starting": "queued"}

SUBMISSIONS: dict[str, Callable[[Api], Any]] = {
    "json": lambda api: api.post("jobs", BODY),
    "metadata": lambda api: api.post("jobs", body_with("metadata", {"b": "1", "a": ""})),
    "warnings": lambda api: api.post(
        "jobs", body_with("profile.text", PROFILE + "iterations=9999999\ntarget_error=0.0001\n")
    ),
    "high": lambda api: api.post("jobs", body_with("priority", "high")),
    "text": lambda api: api.post_text("channel=latest", PROFILE),
}


@pytest.mark.parametrize("form", SUBMISSIONS)
def test_a_submission(api: Api, variant: str, form: str) -> None:
    right(SUBMISSIONS[form](api), variant)


@only_in("C")
def test_a_submission_with_a_deprecated_field(api: Api, variant: str) -> None:
    assert right(api.post("jobs", body_with("runtime.maxRuntimeSeconds", 60)), variant)["deprecations"]


def test_a_replay_of_a_job_that_starts(api: Api, variant: str) -> None:
    headers = {"idempotency-key": "k"}
    first = right(api.post("jobs", BODY, headers=headers), variant)
    assert lifecycle.start_attempt(Job.objects.get(), worker="worker-1")
    answer = api.post("jobs", BODY, headers=headers)
    assert answer.headers["X-Idempotent-Replay"] == "true"
    assert right(answer, variant) == first


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("tail", ["", "/status", "/status?include=logEntries", "/profile"])
def test_a_job_in_each_state(api: Api, account: Any, variant: str, state: str, tail: str) -> None:
    job = STATES[state](client=default_client(account), metadata={"a": "b"})
    forecast.publish()
    body = right(api.get(f"jobs/{job.pk}{tail}"), variant)
    assert body.get("status", SHOWN.get(state, state)) == SHOWN.get(state, state)


@pytest.mark.parametrize("state", STATES)
def test_the_result_in_each_state(api: Api, account: Any, variant: str, state: str) -> None:
    job = STATES[state](client=default_client(account))
    if state == "completed":
        summary = {"metric": "dps", "mainActor": None, "multiStage": {**SINGLE, "stages": []}}
        Job.objects.filter(pk=job.pk).update(summary=summary)
    right(api.get(f"jobs/{job.pk}/result"), variant)


SINGLE = {"enabled": False, "reason": "disabled_by_option"}


def test_a_list_of_jobs_in_all_states(api: Api, account: Any, variant: str) -> None:
    for make in STATES.values():
        make(client=default_client(account))
    everything = right(api.get("jobs"), variant)
    assert {job["status"] for job in everything["jobs"]} == set(STATES) - {"starting"}
    first = right(api.get("jobs?limit=3"), variant)
    right(api.get(f"jobs?limit=3&cursor={first['page']['nextCursor']}"), variant)


def test_progress_and_lines(api: Api, account: Any, variant: str) -> None:
    job = make_running_job(client=default_client(account))
    publisher = Publisher(job)
    for number in range(LISTED_ENTRIES + 1):
        publisher.log.update("stdout", f"line {number}")
        publisher.log.end_line("stdout")
    publisher.publish(
        Progress(percent=42.5, stage=StageProgress(current=1, total=3, label="initial", percent=99.5))
    )
    body = right(api.get(f"jobs/{job.pk}/status?include=logEntries"), variant)
    assert len(body["logEntries"]) == LISTED_ENTRIES
    assert LogEntry(**body["logEntries"][0]).message == "line 1"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("profile", PROFILES)
def test_what_a_real_job_leaves(api: Api, account: Any, variant: str, profile: str) -> None:
    registration.register(MINISIM, MINISIM_ORIGIN, readable=MINISIM_READS)
    job = run(default_client(account), **PROFILES[profile])
    body = right(api.get(f"jobs/{job.pk}/result"), variant)
    assert (body["status"], body["statusReason"]) == ("completed", None)
    shared = right(HttpClient().get(f"/manifests/{job.share_token}"), variant)
    names = [artifact["name"] for artifact in body["result"]["artifacts"]]
    assert names == [artifact["name"] for artifact in shared["artifacts"]]
    assert len(names) == len(set(names))
    for artifact in body["result"]["artifacts"]:
        assert right(api.get(f"artifacts/{artifact['id']}/url"), variant) == {"url": artifact["url"]}


@pytest.mark.django_db(transaction=True)
def test_the_result_of_a_run_that_was_stopped(api: Api, account: Any, variant: str, tmp_path: Path) -> None:
    make_stand_in(tmp_path, RUN_UNTIL_ASKED)
    job = run(default_client(account), ceiling_credits=32, ceiling_runtime_seconds=1)
    body = right(api.get(f"jobs/{job.pk}/result"), variant)
    assert (body["status"], body["result"]["summary"]["partial"]) == ("timed_out", True)


@pytest.mark.parametrize("state", ["pending", "queued", "starting", "running", "cancelled"])
def test_a_cancel_and_its_repetition(api: Api, account: Any, variant: str, state: str) -> None:
    job = STATES[state](client=default_client(account), metadata={"a": "b"})
    first = right(api.post(f"jobs/{job.pk}/cancel"), variant)
    assert right(api.post(f"jobs/{job.pk}/cancel"), variant) == first


CHECKED = "2026-11-20T04:02:00.000Z"
FAILURES = [{"name": "A.simc", "reason": "line 1: refused"}, {"name": "B.simc", "reason": ""}]


@pytest.mark.parametrize(
    ("total", "failures", "status"),
    [(3, [], "pass"), (3, FAILURES, "partial"), (2, FAILURES, "fail"), (0, [], "unknown")],
)
def test_the_checks_of_a_build(
    api: Api, account: Any, variant: str, total: int, failures: list[Any], status: str
) -> None:
    ci = {"total": total, "failures": failures, "checked_at": CHECKED}
    build = BuildFactory.create(ci=ci, profiles_path="/p", profiles=["C.simc"])
    found = right(api.get(f"builds/{build.pk}"), variant)["ci"]
    assert found == {
        "status": status,
        "checks": {"total": total, "passed": total - len(failures), "failed": len(failures)},
        "failures": [failure["name"] for failure in failures],
        "gatedOn": [],
        "retrievedAt": CHECKED,
    }
    job = make_job(default_client(account), build=build, channel=Channel.WEEKLY)
    assert right(api.get(f"jobs/{job.pk}"), variant)["build"] == {
        "id": str(build.pk),
        "channel": "weekly",
        "commit": build.commit,
        "ci": {"status": status, "failed": len(failures)},
    }


@pytest.mark.parametrize("version", ["", "12.0.0.64000"])
@pytest.mark.parametrize("hotfix", [None, date(2026, 11, 18)])
def test_the_game_data_of_a_build(api: Api, variant: str, version: str, hotfix: date | None) -> None:
    BuildFactory.create(wow_version=version, hotfix_date=hotfix, repo="https://example.org/simc")
    (latest, *_) = right(api.get("builds"), variant)["builds"]
    expected = {"live": {"version": version, "hotfixDate": "2026-11-18"}, "ptr": None}
    assert latest["gameData"] == (expected if version and hotfix else None)


def test_a_build_of_which_little_is_known(api: Api, variant: str) -> None:
    build = BuildFactory.create()
    body = right(api.get(f"builds/{build.pk}"), variant)
    assert (body["repo"], body["ci"], body["profiles"]) == ("", None, None)


def test_usage(api: Api, account: Any, variant: str) -> None:
    for make in STATES.values():
        make(client=default_client(account))
    body = right(api.get("usage"), variant)
    assert body["snapshot"] == {"activeJobs": 4, "queuedJobs": 3, "runningJobs": 1}


def test_credits(api: Api, account: Any, variant: str) -> None:
    right(api.get("credits"), variant)
    for reason in GrantReason:
        ledger.grant(account, 5, reason=reason, note="" if reason == "allowance" else "<b>words</b>\nof two lines")
    ledger.grant(account, 5, reason=GrantReason.PROMO, expires_at=timezone.now() + timedelta(days=1))
    grants = right(api.get("credits"), variant)["grants"]
    assert {grant["reason"] for grant in grants} == set(GrantReason.values)


@pytest.mark.parametrize("code", sorted(CASES))
def test_each_error(scene: Scene, variant: str, code: str) -> None:
    right(CASES[code](scene), variant)


def test_a_shortage_at_high_priority(scene: Scene, variant: str) -> None:
    make_job()
    ledger.correct(scene.account, 10 - ledger.available(scene.account), reason="for the test")
    body = right(scene.submit(body_with("priority", "high")), variant)
    assert body["priorityFeeCredits"] == body["meta"]["priorityFeeCredits"]


@pytest.mark.parametrize(
    "text",
    ["", "html=/tmp/x\n" * 30, PROFILE + "html=" + "x" * 500, "\n" * 150_000],
    ids=["nothing to simulate", "many", "long", "too long"],
)
def test_a_profile_that_is_refused(scene: Scene, variant: str, text: str) -> None:
    assert right(scene.submit(body_with("profile.text", text)), variant)["code"] == "input_sanitized_rejected"


@pytest.mark.parametrize(
    "path", ["/share/unknown", "/manifests/unknown", "/artifacts/unknown", "/v1/sim/unknown", "/v2"]
)
@pytest.mark.django_db
def test_nothing_there(path: str) -> None:
    answer = HttpClient(headers={"accept": "application/json"}).get(path)
    if answer.headers["Content-Type"] == "application/json":
        contract.check(whole(answer), contract.error(404, "not_found"))
    assert answer.status_code == 404


@pytest.mark.parametrize("path", ["/healthz", "/v1/openapi.json"])
@pytest.mark.django_db
def test_what_needs_no_key(path: str, variant: str) -> None:
    right(HttpClient().get(path), variant)


@pytest.mark.django_db
@pytest.mark.parametrize("make", [make_completed_job, make_failed_job, timed_out, cancelled])
def test_a_webhooks_body(make: Callable[..., Job], variant: str) -> None:
    make(wants_webhook=True)
    check_webhook(variant)


@pytest.mark.django_db
def test_a_test_events_body(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "require_enabled", lambda _: None)
    webhook_events.send_test_event(make_key()[0].client)
    check_webhook(variant)


@pytest.mark.django_db
def test_the_webhook_of_a_job_cancelled_as_it_starts(variant: str) -> None:
    job = starting(wants_webhook=True)
    cancellation.cancel(job, by=SYSTEM)
    assert lifecycle.finish(job, CANCELLED)
    check_webhook(variant)


def check_webhook(variant: str) -> None:
    """Look at the only event that was written."""
    body = json.loads(bytes(Event.objects.get().body))
    contract.check(body, contract.webhook(variant))
    told = document()["webhooks"]["job.terminal"]["post"]["requestBody"]["content"]["application/json"]
    check_document(body, told["schema"])


@only_in("C")
def test_the_documents_examples_are_answers_of_the_contract(variant: str) -> None:
    shapes = contract.answers(variant)
    for operation in (one for methods in document()["paths"].values() for one in methods.values()):
        if operation["operationId"] in NOT_JSON | {"getOpenApi"}:
            continue
        found = operation["responses"]["200"]["content"]["application/json"]["example"]
        contract.check(json.loads(json.dumps(found)), shapes[operation["operationId"]])
    for code, example in document()["components"]["examples"].items():
        contract.check(example["value"], contract.error(STATUSES[code], code))


# A file, and an answer whose parts are named by what is out of order.
NOT_JSON = {"downloadArtifact", "getReadiness"}
STATUSES = {error.code: error.status for error in family()}


def test_every_operation_and_every_code_has_a_shape(variant: str) -> None:
    operations = {one["operationId"] for methods in document()["paths"].values() for one in methods.values()}
    assert operations == set(contract.answers(variant)) | NOT_JSON
    assert {code: status for status, codes in contract.CODES.items() for code in codes} == STATUSES


def test_the_document_lists_the_codes_of_each_error() -> None:
    for operation in (one for methods in document()["paths"].values() for one in methods.values()):
        for status, told in operation["responses"].items():
            if int(status) < 400 or "application/json" not in told.get("content", {}):
                continue
            schema = told["content"]["application/json"]["schema"]
            if schema["$ref"].endswith("/Error"):
                assert set(schema["properties"]["code"]["enum"]) <= contract.CODES[int(status)]


WRONG: dict[str, Callable[[dict[str, Any]], object]] = {
    "an unknown key": lambda job: job.update(further=1),
    "a missing key": lambda job: job.pop("retried"),
    "an internal status": lambda job: job.update(status="starting"),
    "a time without milliseconds": lambda job: job.update(createdAt="2026-11-20T08:10:00Z"),
    "a time of another zone": lambda job: job.update(createdAt="2026-11-20T08:10:00.123+00:00"),
    "an unknown error code": lambda job: job.update(errorCode="unknown"),
    "an id that is a number": lambda job: job.update(id=176352841234500042),
    "a build of the old form": lambda job: job["build"].update(ci={"status": "passed", "failed": []}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_both_statements_refuse(wrong: str) -> None:
    schema = {"$ref": "#/components/schemas/Job"}
    job = document()["paths"]["/v1/sim/jobs/{job_id}"]["get"]["responses"]["200"]["content"]["application/json"]
    changed = json.loads(json.dumps(job["example"]))
    WRONG[wrong](changed)
    with pytest.raises(ValidationError):
        check_document(changed, schema)
    with pytest.raises(ValidationError):
        contract.check(changed, contract.answers("C")["getJob"])
