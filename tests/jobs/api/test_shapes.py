"""Every response of every endpoint, checked against the handwritten contract and the OpenAPI document."""

import json
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client as HttpClient
from django.utils import timezone

from billing import ledger
from billing.models import GrantReason
from clients.accounts import default_client
from clients.audit import SYSTEM
from jobs import cancellation, lifecycle, webhook_events
from jobs.enums import Channel
from jobs.lifecycle import CANCELLED
from jobs.models import Job
from jobs.progress import LISTED_ENTRIES, LogEntry, Progress, Publisher, StageProgress
from jobs.queueing import forecast
from simservice.api.openapi import document
from tests.conftest import Api
from tests.dashboard.summaries import make_completed_job, make_failed_job
from tests.factories import PROFILE, BuildFactory, make_job, make_key, make_running_job
from tests.jobs.api import contract, error_schemas, schemas
from tests.jobs.api.bodies import BODY, body_with, only_in
from tests.jobs.api.error_cases import CASES, Scene, scene
from tests.jobs.api.shape_checks import (
    STATES,
    account,
    cancelled,
    check_document,
    right,
    starting,
    timed_out,
    whole,
)
from tests.jobs.simulators import RUN_UNTIL_ASKED, make_stand_in, run
from webhooks import endpoints
from webhooks.models import Event

__all__ = ["account", "scene"]
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
def test_a_submission_matches_the_contract(api: Api, variant: str, form: str) -> None:
    right(SUBMISSIONS[form](api), variant)


@only_in("C")
def test_a_submission_with_a_deprecated_field_matches(api: Api, variant: str) -> None:
    assert right(api.post("jobs", body_with("runtime.maxRuntimeSeconds", 60)), variant)["deprecations"]


def test_a_replay_for_a_starting_job_matches(api: Api, variant: str) -> None:
    headers = {"idempotency-key": "k"}
    first = right(api.post("jobs", BODY, headers=headers), variant)
    assert lifecycle.start_attempt(Job.objects.get(), worker="worker-1")
    answer = api.post("jobs", BODY, headers=headers)
    assert answer.headers["X-Idempotent-Replay"] == "true"
    assert right(answer, variant) == first


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("tail", ["", "/status", "/status?include=logEntries", "/profile"])
def test_a_job_matches_in_each_status(api: Api, account: Any, variant: str, state: str, tail: str) -> None:
    job = STATES[state](client=default_client(account), metadata={"a": "b"})
    forecast.publish()
    body = right(api.get(f"jobs/{job.pk}{tail}"), variant)
    assert body.get("status", SHOWN.get(state, state)) == SHOWN.get(state, state)


@pytest.mark.parametrize("state", STATES)
def test_the_result_matches_in_each_status(api: Api, account: Any, variant: str, state: str) -> None:
    job = STATES[state](client=default_client(account))
    if state == "completed":
        summary = {"metric": "dps", "mainActor": None, "multiStage": {**SINGLE, "stages": []}}
        Job.objects.filter(pk=job.pk).update(summary=summary)
    right(api.get(f"jobs/{job.pk}/result"), variant)


SINGLE = {"enabled": False, "reason": "disabled_by_option"}


def test_a_list_of_jobs_in_all_statuses_matches(api: Api, account: Any, variant: str) -> None:
    for make in STATES.values():
        make(client=default_client(account))
    everything = right(api.get("jobs"), variant)
    assert {job["status"] for job in everything["jobs"]} == set(STATES) - {"starting"}
    first = right(api.get("jobs?limit=3"), variant)
    right(api.get(f"jobs?limit=3&cursor={first['page']['nextCursor']}"), variant)


def test_progress_and_log_entries_match(api: Api, account: Any, variant: str) -> None:
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
@pytest.mark.usefixtures("minisim")
@pytest.mark.parametrize("profile", PROFILES)
def test_the_result_of_a_real_job_matches(api: Api, account: Any, variant: str, profile: str) -> None:
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
def test_the_result_of_a_stopped_run_matches(api: Api, account: Any, variant: str, tmp_path: Path) -> None:
    make_stand_in(tmp_path, RUN_UNTIL_ASKED)
    job = run(default_client(account), ceiling_credits=32, ceiling_runtime_seconds=1)
    body = right(api.get(f"jobs/{job.pk}/result"), variant)
    assert (body["status"], body["result"]["summary"]["partial"]) == ("timed_out", True)


@pytest.mark.parametrize("state", ["pending", "queued", "starting", "running", "cancelled"])
def test_a_cancel_and_its_repetition_match(api: Api, account: Any, variant: str, state: str) -> None:
    job = STATES[state](client=default_client(account), metadata={"a": "b"})
    first = right(api.post(f"jobs/{job.pk}/cancel"), variant)
    assert right(api.post(f"jobs/{job.pk}/cancel"), variant) == first


CHECKED = "2026-11-20T04:02:00.000Z"
FAILURES = [{"name": "A.simc", "reason": "line 1: refused"}, {"name": "B.simc", "reason": ""}]


@pytest.mark.parametrize(
    ("total", "failures", "status"),
    [(3, [], "pass"), (3, FAILURES, "partial"), (2, FAILURES, "fail"), (0, [], "unknown")],
)
def test_the_checks_of_a_build_match(
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
def test_the_game_data_of_a_build_matches(api: Api, variant: str, version: str, hotfix: date | None) -> None:
    BuildFactory.create(wow_version=version, hotfix_date=hotfix, repo="https://example.org/simc")
    (latest, *_) = right(api.get("builds"), variant)["builds"]
    expected = {"live": {"version": version, "hotfixDate": "2026-11-18"}, "ptr": None}
    assert latest["gameData"] == (expected if version and hotfix else None)


def test_a_build_with_few_details_matches(api: Api, variant: str) -> None:
    build = BuildFactory.create()
    body = right(api.get(f"builds/{build.pk}"), variant)
    assert (body["repo"], body["ci"], body["profiles"]) == ("", None, None)


def test_usage_matches(api: Api, account: Any, variant: str) -> None:
    for make in STATES.values():
        make(client=default_client(account))
    body = right(api.get("usage"), variant)
    assert body["snapshot"] == {"activeJobs": 4, "queuedJobs": 3, "runningJobs": 1}


def test_credits_match(api: Api, account: Any, variant: str) -> None:
    right(api.get("credits"), variant)
    for reason in GrantReason:
        ledger.grant(account, 5, reason=reason, note="" if reason == "allowance" else "<b>words</b>\nof two lines")
    ledger.grant(account, 5, reason=GrantReason.PROMO, expires_at=timezone.now() + timedelta(days=1))
    grants = right(api.get("credits"), variant)["grants"]
    assert {grant["reason"] for grant in grants} == set(GrantReason.values)


@pytest.mark.parametrize("code", sorted(CASES))
def test_each_error_matches(scene: Scene, variant: str, code: str) -> None:
    right(CASES[code](scene), variant)


def test_a_shortage_at_high_priority_matches(scene: Scene, variant: str) -> None:
    make_job()
    ledger.correct(scene.account, 10 - ledger.available(scene.account), reason="for the test")
    body = right(scene.submit(body_with("priority", "high")), variant)
    assert body["priorityFeeCredits"] == body["meta"]["priorityFeeCredits"]


@pytest.mark.parametrize(
    "text",
    ["", "html=/tmp/x\n" * 30, PROFILE + "html=" + "x" * 500, "\n" * 150_000],
    ids=["nothing to simulate", "many", "long", "too long"],
)
def test_a_rejected_profile_matches(scene: Scene, variant: str, text: str) -> None:
    assert right(scene.submit(body_with("profile.text", text)), variant)["code"] == "input_sanitized_rejected"


@pytest.mark.parametrize(
    "path", ["/share/unknown", "/manifests/unknown", "/artifacts/unknown", "/v1/sim/unknown", "/v2"]
)
@pytest.mark.django_db
def test_unknown_addresses_match(path: str) -> None:
    answer = HttpClient(headers={"accept": "application/json"}).get(path)
    if answer.headers["Content-Type"] == "application/json":
        schemas.check(whole(answer), error_schemas.error(404, "not_found"))
    assert answer.status_code == 404


@pytest.mark.parametrize("path", ["/healthz", "/v1/openapi.json"])
@pytest.mark.django_db
def test_open_endpoints_match(path: str, variant: str) -> None:
    right(HttpClient().get(path), variant)


@pytest.mark.django_db
@pytest.mark.parametrize("make", [make_completed_job, make_failed_job, timed_out, cancelled])
def test_a_webhook_body_matches(make: Callable[..., Job], variant: str) -> None:
    make(wants_webhook=True)
    check_webhook(variant)


@pytest.mark.django_db
def test_a_test_event_body_matches(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "require_enabled", lambda _: None)
    webhook_events.send_test_event(make_key()[0].client)
    check_webhook(variant)


@pytest.mark.django_db
def test_the_webhook_of_a_job_cancelled_while_starting_matches(variant: str) -> None:
    job = starting(wants_webhook=True)
    cancellation.cancel(job, by=SYSTEM)
    assert lifecycle.finish(job, CANCELLED)
    check_webhook(variant)


def check_webhook(variant: str) -> None:
    """Check the only stored event."""
    body = json.loads(bytes(Event.objects.get().body))
    schemas.check(body, contract.webhook(variant))
    told = document()["webhooks"]["job.terminal"]["post"]["requestBody"]["content"]["application/json"]
    check_document(body, told["schema"])
