"""Responses about jobs match the handwritten contract and the OpenAPI document."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client as HttpClient

from clients.accounts import default_client
from clients.models import ApiKey
from jobs.lifecycle import job_moves
from jobs.live.preview import LISTED_PROFILESETS, Figures, Preview, RankedProfileset
from jobs.live.progress import LISTED_ENTRIES, LogEntry, Progress, Publisher, StageProgress
from jobs.models import Job
from jobs.queue import forecast
from tests.conftest import Api
from tests.dashboard.summaries import make_completed_job
from tests.factories import PROFILE, make_running_job, start_attempt
from tests.jobs.api.bodies import BODY, body_with, only_in
from tests.jobs.api.job_states import PUBLIC, STATES
from tests.jobs.api.response_checks import checked
from tests.jobs.simulators import RUN_UNTIL_INTERRUPTED, make_stand_in, run

SETS = "".join(f"profileset.s{number}+=trinket1=stone,id=1,ilevel={600 + 12 * number}\n" for number in range(6))
GEAR = (
    'mage="A"\nlevel=80\nspec=frost\ntalents=CAEA\nneck=plain_chain\n'
    "head=hood,id=1,ilevel=600,bonus_id=1/2,gem_id=3,enchant_id=4,crafted_stats=36/49\n"
)
PROFILES: dict[str, dict[str, Any]] = {
    "one actor": {"text": f"{GEAR}iterations=20\n", "html": True, "csv": True},
    "profilesets": {"text": f"{GEAR}iterations=20\n{SETS}"},
    "several actors": {"text": 'mage="A"\nwarrior="B"\niterations=20\n', "csv": True},
    "weights": {"text": f"{GEAR}iterations=20\ncalculate_scale_factors=1\ndps_plot_stat=crit\ndps_plot_points=2\n"},
    "stages": {"text": f"{GEAR}target_error=0.4\n{SETS}", "multi_stage": True, "html": True, "csv": True},
}


@pytest.fixture
def account(key: tuple[ApiKey, str]) -> Any:
    return key[0].client.account


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
def test_the_response_to_a_submission(api: Api, variant: str, form: str) -> None:
    checked(SUBMISSIONS[form](api), variant)


@only_in("C")
def test_the_response_to_a_deprecated_field(api: Api, variant: str) -> None:
    assert checked(api.post("jobs", body_with("runtime.maxRuntimeSeconds", 60)), variant)["deprecations"]


def test_a_replay_returns_the_first_response(api: Api, variant: str) -> None:
    headers = {"idempotency-key": "k"}
    first = checked(api.post("jobs", BODY, headers=headers), variant)
    assert start_attempt(Job.objects.get(), worker="worker-1")
    response = api.post("jobs", BODY, headers=headers)
    assert response.headers["X-Idempotent-Replay"] == "true"
    assert checked(response, variant) == first


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "tail", ["", "/status", "/status?include=logEntries", "/status?include=preview", "/profile"]
)
def test_a_job_in_each_state(api: Api, account: Any, variant: str, state: str, tail: str) -> None:
    job = STATES[state](client=default_client(account), metadata={"a": "b"})
    forecast.publish()
    body = checked(api.get(f"jobs/{job.pk}{tail}"), variant)
    assert body.get("status", PUBLIC.get(state, state)) == PUBLIC.get(state, state)


def test_a_job_says_how_many_slots_ran_simulators(api: Api, account: Any) -> None:
    running, done = (
        make_running_job(client=default_client(account)),
        make_completed_job(slots_used=3, client=default_client(account)),
    )
    assert [api.get(f"jobs/{job.pk}").json()["runtime"]["slotsUsed"] for job in (running, done)] == [None, 3]
    assert job_moves.requeue(running, reason="lost")
    assert job_moves.finish(running, job_moves.CANCELLED)
    assert api.get(f"jobs/{running.pk}").json()["runtime"]["slotsUsed"] is None


@pytest.mark.parametrize("state", STATES)
def test_the_result_in_each_state(api: Api, account: Any, variant: str, state: str) -> None:
    job = STATES[state](client=default_client(account))
    if state == "completed":
        summary = {"metric": "dps", "mainActor": None, "multiStage": {**SINGLE_PASS, "stages": []}}
        Job.objects.filter(pk=job.pk).update(summary=summary)
    checked(api.get(f"jobs/{job.pk}/result"), variant)


SINGLE_PASS = {"enabled": False, "reason": "disabled_by_option"}


def test_a_list_of_jobs_in_all_states(api: Api, account: Any, variant: str) -> None:
    for make in STATES.values():
        make(client=default_client(account))
    everything = checked(api.get("jobs"), variant)
    assert {job["status"] for job in everything["jobs"]} == set(STATES) - set(PUBLIC)
    first = checked(api.get("jobs?limit=3"), variant)
    checked(api.get(f"jobs?limit=3&cursor={first['page']['nextCursor']}"), variant)


def test_the_status_contains_progress_and_log_entries(api: Api, account: Any, variant: str) -> None:
    job = make_running_job(client=default_client(account))
    publisher = Publisher(job)
    for number in range(LISTED_ENTRIES + 1):
        publisher.log.update("stdout", f"line {number}")
        publisher.log.end_line("stdout")
    publisher.publish(
        Progress(percent=42.5, stage=StageProgress(current=1, total=3, label="initial", percent=99.5))
    )
    body = checked(api.get(f"jobs/{job.pk}/status?include=logEntries"), variant)
    assert len(body["logEntries"]) == LISTED_ENTRIES
    assert LogEntry(**body["logEntries"][0]).message == "line 1"


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("minisim")
@pytest.mark.parametrize("profile", PROFILES)
def test_result_and_manifest_of_a_real_job(api: Api, account: Any, variant: str, profile: str) -> None:
    job = run(default_client(account), **PROFILES[profile])
    body = checked(api.get(f"jobs/{job.pk}/result?include=details"), variant)
    assert (body["status"], body["statusReason"]) == ("completed", None)
    assert body["result"]["details"]["actors"][0].keys() >= {"abilities", "buffs", "damage", "resources", "stats"}
    shared = checked(HttpClient().get(f"/manifests/{job.share_token}"), variant)
    names = [artifact["name"] for artifact in body["result"]["artifacts"]]
    assert names == [artifact["name"] for artifact in shared["artifacts"]]
    assert len(names) == len(set(names))
    for artifact in body["result"]["artifacts"]:
        assert checked(api.get(f"artifacts/{artifact['id']}/url"), variant) == {"url": artifact["url"]}


@pytest.mark.django_db(transaction=True)
def test_a_stopped_run_has_a_partial_result(api: Api, account: Any, variant: str, tmp_path: Path) -> None:
    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED)
    job = run(default_client(account), ceiling_credits=32, ceiling_runtime_seconds=1)
    body = checked(api.get(f"jobs/{job.pk}/result"), variant)
    assert (body["status"], body["result"]["summary"]["partial"]) == ("timed_out", True)


@pytest.mark.parametrize("state", ["pending", "queued", "starting", "running", "cancelled"])
def test_a_repeated_cancellation_has_the_same_response(api: Api, account: Any, variant: str, state: str) -> None:
    job = STATES[state](client=default_client(account), metadata={"a": "b"})
    first = checked(api.post(f"jobs/{job.pk}/cancel"), variant)
    assert checked(api.post(f"jobs/{job.pk}/cancel"), variant) == first


@pytest.mark.parametrize("action", ["pause", "resume"])
@pytest.mark.parametrize("state", ["pending", "queued", "paused", "starting", "running"])
def test_a_repeated_pause_or_resume_has_the_same_response(
    api: Api, account: Any, variant: str, state: str, action: str
) -> None:
    job = STATES[state](client=default_client(account), metadata={"a": "b"})
    first = checked(api.post(f"jobs/{job.pk}/{action}"), variant)
    assert checked(api.post(f"jobs/{job.pk}/{action}"), variant) == first


def test_the_status_contains_a_preview(api: Api, account: Any, variant: str) -> None:
    job = make_running_job(client=default_client(account))
    best = [RankedProfileset(name="\u05d0" * 300, mean=200, error=0.5, stage=2)] * LISTED_PROFILESETS
    known = Preview(seconds_left=90, baseline=Figures(mean=150, error=1), finished=60, count=70, best=best)
    Publisher(job, preview=lambda: known).publish(Progress(percent=42.5, stage=None))
    preview = checked(api.get(f"jobs/{job.pk}/status?include=preview"), variant)["preview"]
    assert (preview["secondsLeft"], preview["baseline"]) == (90, {"mean": 150, "mean_error": 1})
    assert (preview["profilesets"]["finished"], preview["profilesets"]["count"]) == (60, 70)
    assert (
        preview["profilesets"]["results"]
        == [{"mean": 200, "mean_error": 0.5, "name": "\u05d0" * 300, "stage": 2}] * LISTED_PROFILESETS
    )
