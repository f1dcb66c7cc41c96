"""Who may call which tool (docs/reference/mcp.md#access)."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from billing.models import Account, Plan
from clients.models import ApiKey, Membership
from jobs.models import Job
from tests.dashboard.summaries import make_completed_job
from tests.factories import make_account, make_job, make_key, make_member
from tests.jobs.mcp.conftest import SUBMISSION, Mcp

pytestmark = pytest.mark.django_db

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
OF_A_JOB: list[tuple[str, dict[str, Any]]] = [
    ("wait", {"jobId": "{job}"}),
    ("rank", {"jobId": "{job}"}),
    ("explain", {"jobId": "{job}"}),
    ("compare", {"jobIds": ["{own}", "{job}"]}),
]


@pytest.fixture
def reader(key: tuple[ApiKey, str]) -> Mcp:
    """A client whose key can only read, because its creator is a viewer."""
    member = make_member(key[0].client.account, role=Membership.Role.VIEWER)
    ApiKey.objects.filter(pk=key[0].pk).update(created_by=member.user)
    return Mcp(key[1])


@pytest.mark.parametrize(
    ("change", "code"),
    [({"revoked_at": -1}, "revoked_token"), ({"expires_at": -1}, "expired_token")],
)
def test_an_inactive_key_is_refused(mcp: Mcp, key: tuple[ApiKey, str], change: dict[str, int], code: str) -> None:
    times = {name: timezone.now() + timedelta(seconds=seconds) for name, seconds in change.items()}
    ApiKey.objects.filter(pk=key[0].pk).update(**times)
    response = mcp.post(PING)
    assert (response.status_code, response.json()["code"]) == (401, code)
    assert response.headers["WWW-Authenticate"] == "Bearer"


def test_a_key_is_needed(mcp: Mcp) -> None:
    for headers, code in (
        ({"authorization": ""}, "missing_token"),
        ({"authorization": "Bearer x"}, "invalid_token"),
    ):
        response = mcp.post(PING, headers=headers)
        assert (response.status_code, response.json()["code"]) == (401, code)


def test_a_key_that_can_only_read_cannot_spend(reader: Mcp, key: tuple[ApiKey, str]) -> None:
    job = make_job(client=key[0].client)
    for tool in ("run", "check", "estimate"):
        assert reader.refusal(tool, **SUBMISSION)["code"] == "read_only_key"
    task = {"name": "run", "arguments": SUBMISSION, "task": {}}
    assert reader.error("tools/call", task) == (-32602, "read_only_key")
    assert reader.error("tasks/cancel", {"taskId": str(job.pk)}) == (-32602, "read_only_key")
    job.refresh_from_db()
    assert job.status == "pending"
    assert Job.objects.count() == 1


def test_a_key_with_the_scope_read_cannot_spend(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    ApiKey.objects.filter(pk=key[0].pk).update(scope="read")
    for tool in ("run", "check", "estimate"):
        refusal = mcp.refusal(tool, **SUBMISSION)
        assert (refusal["code"], refusal["meta"]) == ("insufficient_scope", {"required": "submit", "scope": "read"})
    assert not Job.objects.exists()


@pytest.mark.usefixtures("build")
def test_a_key_that_can_only_read_can_use_the_other_tools(reader: Mcp, key: tuple[ApiKey, str]) -> None:
    first, second = (make_completed_job(client=key[0].client) for _ in range(2))
    for name, arguments in OF_A_JOB:
        if "jobId" in arguments:
            reader.call(name, jobId=str(first.pk))
    reader.call("compare", jobIds=[str(first.pk), str(second.pk)])
    reader.call("credits")
    assert reader.result("tasks/get", {"taskId": str(first.pk)})["status"] == "completed"


@pytest.mark.parametrize("job_id", ["999999999999999999", "x", "", "\N{SNOWMAN}", "-1", "9" * 1000])
def test_an_unknown_job_does_not_exist(mcp: Mcp, key: tuple[ApiKey, str], job_id: str) -> None:
    assert_missing(mcp, job_id, own=make_completed_job(client=key[0].client))


def test_the_job_of_another_account_does_not_exist(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    foreign = make_completed_job()
    assert_missing(mcp, str(foreign.pk), own=make_completed_job(client=key[0].client))
    assert mcp.error("tasks/cancel", {"taskId": str(foreign.pk)}) == (-32602, "not_found")
    assert mcp.result("tasks/list")["tasks"][1:] == []


def assert_missing(mcp: Mcp, job_id: str, *, own: Job) -> None:
    for name, arguments in OF_A_JOB:
        if "jobIds" in arguments:
            error = mcp.refusal(name, jobIds=[str(own.pk), job_id])
        else:
            error = mcp.refusal(name, jobId=job_id)
        assert error["code"] in ("not_found", "validation_failed" if not job_id else "not_found")
    for method in ("tasks/get", "tasks/result"):
        assert mcp.error(method, {"taskId": job_id}) == (-32602, "not_found")


@pytest.mark.usefixtures("build")
def test_a_suspended_account_cannot_run_jobs(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    Account.objects.filter(pk=key[0].client.account_id).update(suspended_at=timezone.now())
    assert mcp.refusal("run", **SUBMISSION)["code"] == "inactive_entitlement"
    assert mcp.call("credits")["isSuspended"]
    assert mcp.call("check", **SUBMISSION)["refusal"]["code"] == "inactive_entitlement"


def test_an_account_without_credits_cannot_run_jobs() -> None:
    mcp = Mcp(make_key(make_account(credits=0))[1])
    error = mcp.refusal("run", **SUBMISSION)
    assert error["code"] == "insufficient_credits_liability"
    assert error["meta"]["docsUrl"].endswith("/docs/errors#insufficient_credits_liability")
    assert mcp.call("credits")["available"] == 0


def limit(key: tuple[ApiKey, str], **limits: int) -> None:
    Plan.objects.filter(pk=key[0].client.account.plan_id).update(**limits)


def test_messages_are_reads(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    limit(key, reads_per_minute=2)
    assert [mcp.post(PING).status_code for _ in range(3)] == [200, 200, 429]
    assert mcp.http.get("/v1/sim/credits").status_code == 429


def test_runs_are_also_submissions(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    limit(key, submissions_per_minute=1)
    mcp.call("run", **SUBMISSION)
    error = mcp.refusal("run", **SUBMISSION)
    assert (error["code"], error["meta"]["limit"]) == ("rate_limit_exceeded", "submissions")
    assert error["retryAfterSeconds"] >= 1
    body = {"build": {"channel": "latest"}, "profile": {"text": SUBMISSION["profile"]}}
    assert mcp.http.post("/v1/sim/jobs", body, content_type="application/json").status_code == 429


def test_the_bytes_of_runs_are_limited(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    limit(key, submission_bytes_per_minute=1000)
    mcp.call("run", **SUBMISSION, metadata={"a": "x" * 500})
    assert mcp.refusal("run", **SUBMISSION, metadata={"a": "x" * 500})["meta"]["limit"] == "bytes"


@pytest.mark.usefixtures("build")
def test_checks_have_a_limit_of_their_own(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    limit(key, submissions_per_minute=1)
    mcp.call("check", **SUBMISSION)
    assert mcp.refusal("estimate", **SUBMISSION)["meta"]["limit"] == "checks"
    mcp.call("run", **SUBMISSION)
