"""The tools of the MCP server (docs/reference/mcp.md#tools)."""

from typing import Any

import jsonschema
import pytest

from clients.accounts import default_client
from clients.models import ApiKey
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.mcp.arguments import PATHS
from jobs.models import Job
from tests.dashboard.summaries import make_completed_job, make_failed_job, summary
from tests.factories import make_job, make_running_job
from tests.jobs.mcp.conftest import SUBMISSION, Mcp

pytestmark = pytest.mark.django_db


def test_the_tools_have_valid_schemas(mcp: Mcp) -> None:
    tools = {tool["name"]: tool for tool in mcp.result("tools/list")["tools"]}
    assert list(tools) == ["check", "estimate", "run", "wait", "rank", "compare", "explain", "credits"]
    for tool in tools.values():
        for schema in (tool["inputSchema"], tool["outputSchema"]):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
        assert all(tool[name] for name in ("title", "description"))
    assert [name for name, tool in tools.items() if not tool["annotations"]["readOnlyHint"]] == ["run"]
    assert [name for name, tool in tools.items() if "execution" in tool] == ["run"]


@pytest.mark.parametrize("variant", ["C", "R"])
def test_a_submission_has_the_arguments_of_the_variant(mcp: Mcp, settings: Any, variant: str) -> None:
    settings.API_VARIANT = variant
    run = next(tool for tool in mcp.result("tools/list")["tools"] if tool["name"] == "run")
    left_out = {"maxCredits"} if variant == "R" else set()
    assert run["inputSchema"]["properties"].keys() == {*PATHS, "idempotencyKey"} - left_out
    assert run["inputSchema"]["required"] == ["profile", "channel"]


@pytest.mark.usefixtures("build")
def test_check_returns_what_the_api_returns(mcp: Mcp) -> None:
    found = mcp.call("check", **SUBMISSION)
    body = {"build": {"channel": "latest"}, "profile": {"text": SUBMISSION["profile"]}}
    assert found == mcp.http.post("/v1/sim/jobs/validate", body, content_type="application/json").json()
    assert found["valid"]


@pytest.mark.usefixtures("build")
def test_estimate_returns_the_limits_of_the_cost(mcp: Mcp) -> None:
    found = mcp.call("estimate", **SUBMISSION, maxCredits=6400)
    assert (found["valid"], found["runtime"]["ceiling"]["maxCredits"], found["estimate"]) == (True, 6400, None)


@pytest.mark.usefixtures("build")
def test_a_refused_profile_is_an_answer_of_check(mcp: Mcp) -> None:
    found = mcp.call("check", profile="save=/tmp/x", channel="latest")
    assert (found["valid"], found["refusal"]["code"]) == (False, "input_sanitized_rejected")


def test_run_submits_a_job_once_for_each_key(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    chosen = {**SUBMISSION, "metadata": {"from": "an agent"}, "multiStage": True, "idempotencyKey": "one"}
    first, second, other = mcp.call("run", **chosen), mcp.call("run", **chosen), mcp.call("run", **SUBMISSION)
    assert first == second
    assert first["job"]["id"] == first["submission"]["id"] != other["job"]["id"]
    job = Job.objects.get(pk=first["job"]["id"])
    assert (job.account, job.metadata) == (key[0].client.account, {"from": "an agent"})
    assert Job.objects.count() == 2


def test_run_and_the_api_share_idempotency_keys(mcp: Mcp) -> None:
    body = {"build": {"channel": "latest"}, "profile": {"text": SUBMISSION["profile"]}}
    headers = {"idempotency-key": "one"}
    job_id = mcp.http.post("/v1/sim/jobs", body, content_type="application/json", headers=headers).json()["id"]
    assert mcp.call("run", **SUBMISSION, idempotencyKey="one")["submission"]["id"] == job_id
    different = {**SUBMISSION, "multiStage": True}
    assert mcp.refusal("run", **different, idempotencyKey="one")["code"] == "idempotency_key_reuse"


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"profile": "x"}, "channel"),
        ({"channel": "latest"}, "profile"),
        ({**SUBMISSION, "channel": "any"}, "channel"),
        ({**SUBMISSION, "buildId": 7}, "buildId"),
        ({**SUBMISSION, "maxCredits": "all"}, "maxCredits"),
        ({**SUBMISSION, "maxCredits": 1}, "maxCredits"),
        ({**SUBMISSION, "maxCredits": 10**9}, "maxCredits"),
        ({**SUBMISSION, "metadata": {"x": 1}}, "metadata.x"),
        ({**SUBMISSION, "webhookEvents": ["no"]}, "webhookEvents"),
        ({**SUBMISSION, "idempotencyKey": ""}, "idempotencyKey"),
        ({**SUBMISSION, "idempotencyKey": 1}, "idempotencyKey"),
        ({**SUBMISSION, "\ud800": 1}, "\ud800"),
        ({**SUBMISSION, "profile": None}, "profile"),
    ],
)
def test_errors_of_run_name_the_arguments(mcp: Mcp, arguments: dict[str, Any], path: str) -> None:
    error = mcp.refusal("run", **arguments)
    assert error["code"] == "validation_failed"
    assert [issue["path"] for issue in error["meta"]["issues"]] == [path]
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("wait", {}),
        ("wait", {"jobId": 7}),
        ("wait", {"jobId": "7", "seconds": 26}),
        ("wait", {"jobId": "7", "seconds": -1}),
        ("wait", {"jobId": "7", "more": 1}),
        ("rank", {"jobId": "7", "first": 0}),
        ("rank", {"jobId": "7", "limit": 101}),
        ("compare", {"jobIds": ["7"]}),
        ("compare", {"jobIds": ["7"] * 5}),
        ("compare", {"jobIds": ["7", "7"]}),
        ("explain", {"jobId": None}),
        ("credits", {"x": 1}),
    ],
)
def test_other_tools_check_their_arguments(mcp: Mcp, name: str, arguments: dict[str, Any]) -> None:
    assert mcp.refusal(name, **arguments)["code"] == "validation_failed"


def own(key: tuple[ApiKey, str]) -> dict[str, Any]:
    return {"client": key[0].client}


def test_wait_returns_the_state_of_a_job(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    waiting, running = make_job(**own(key)), make_running_job(**own(key))
    done, failed = make_completed_job(**own(key)), make_failed_job(**own(key))
    states = {job.pk: mcp.call("wait", jobId=str(job.pk)) for job in (waiting, running, done, failed)}
    assert [state["status"] for state in states.values()] == ["pending", "running", "completed", "failed"]
    assert [state["hasEnded"] for state in states.values()] == [False, False, True, True]
    assert states[done.pk]["verdict"]["text"]
    assert states[failed.pk]["errorCode"] == "simulation_error"


def test_rank_returns_a_part_of_the_ranking(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    job = make_completed_job(summary("third", "second", "first"), **own(key))
    found = mcp.call("rank", jobId=str(job.pk), first=2, limit=1)
    assert found["count"] == 3
    (entry,) = found["results"]
    assert (entry["place"], entry["name"], entry["mean"]) == (2, "second", 110.0)
    assert found["verdict"]["names"] == ["first"]


def test_rank_of_a_job_without_a_result_is_refused(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    running, failed = make_running_job(**own(key)), make_failed_job(**own(key))
    assert mcp.refusal("rank", jobId=str(running.pk))["code"] == "result_not_ready"
    assert mcp.refusal("rank", jobId=str(failed.pk))["code"] == "result_unavailable"


def test_compare_says_how_jobs_differ(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    first, second = (make_completed_job(summary(mean=mean), **own(key)) for mean in (1000.0, 1200.0))
    unfinished = make_running_job(**own(key))
    found = mcp.call("compare", jobIds=[str(job.pk) for job in (first, second, unfinished)])
    assert [each["missing"] for each in found["jobs"]] == [None, None, "unfinished"]
    assert found["jobs"][0]["change"] is None
    assert found["jobs"][1]["change"]["percent"] == pytest.approx(20)


def test_explain_says_why_a_job_failed(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    job = make_failed_job("Unknown option at line 3.", **own(key))
    found = mcp.call("explain", jobId=str(job.pk))
    assert (found["headline"], found["errorCode"]) == ("Unknown option at line 3.", "simulation_error")
    assert found["needsCorrection"]
    assert found["advice"] == "Correct the error shown above, then run the job again."
    assert found["docsUrl"].endswith("/docs/errors#job-error-codes")
    completed = mcp.call("explain", jobId=str(make_completed_job(**own(key)).pk))
    assert (completed["headline"], completed["advice"], completed["docsUrl"]) == ("Completed.", None, None)


def test_explain_knows_every_end(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    job = make_running_job(**own(key))
    outcome = Outcome(status=Status.TIMED_OUT, error_code="execution_timeout", reason="It took too long.")
    assert job_moves.finish(job, outcome)
    assert "limit" in mcp.call("explain", jobId=str(job.pk))["advice"]
    assert mcp.call("explain", jobId=str(make_job(**own(key)).pk))["headline"] == "Waiting."


def test_credits_are_those_of_the_api(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    make_job(default_client(key[0].client.account))
    found = mcp.call("credits")
    assert found["balances"] == mcp.http.get("/v1/sim/credits").json()
    assert found["available"] == found["balances"]["purchased"]
    assert found["balances"]["reserved"] == 3200
    assert not found["isSuspended"]
