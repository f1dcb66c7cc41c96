"""Jobs as tasks of the MCP protocol (docs/reference/mcp.md#tasks)."""

from typing import Any

import pytest
from mcp import types
from pytest_django import DjangoAssertNumQueries

from clients.models import ApiKey, AuditEvent
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.mcp import tasks
from jobs.models import Job
from simservice.web.waiting import RESERVE
from tests.dashboard.summaries import make_completed_job, make_failed_job, make_stopped_job, summary
from tests.factories import make_job, make_running_job
from tests.jobs.mcp.conftest import SUBMISSION, Mcp, checked

pytestmark = pytest.mark.django_db


def as_task(mcp: Mcp, **arguments: Any) -> dict[str, Any]:
    """Call `run` as a task and return the task."""
    found = mcp.result("tools/call", {"name": "run", "arguments": arguments, "task": {"ttl": 60_000}})
    types.CreateTaskResult.model_validate(found)
    task: dict[str, Any] = found["task"]
    return task


def task_of(mcp: Mcp, job: Job) -> dict[str, Any]:
    """Return a job as a task. The official types accept it."""
    found = mcp.result("tasks/get", {"taskId": str(job.pk)})
    types.GetTaskResult.model_validate(found)
    return found


def test_a_run_as_a_task_is_a_job(mcp: Mcp) -> None:
    task = as_task(mcp, **SUBMISSION)
    job = Job.objects.get()
    assert (task["taskId"], task["status"]) == (str(job.pk), "working")
    assert task["pollInterval"] >= 1000
    # The lifetime is that of the job, whatever was asked for.
    assert task["ttl"] == 30 * 24 * 3600 * 1000
    assert mcp.result("tasks/get", {"taskId": task["taskId"]})["status"] == "working"


def test_a_repeated_task_with_the_same_key_is_the_same_job(mcp: Mcp) -> None:
    first, second = (as_task(mcp, **SUBMISSION, idempotencyKey="one") for _ in range(2))
    assert first["taskId"] == second["taskId"]
    assert Job.objects.count() == 1


def test_a_refused_task_is_an_error_of_the_protocol(mcp: Mcp) -> None:
    arguments = {**SUBMISSION, "channel": "any"}
    found = mcp.error("tools/call", {"name": "run", "arguments": arguments, "task": {}})
    assert found == (-32602, "validation_failed")


def test_each_status_is_one_of_the_protocol(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    own: dict[str, Any] = {"client": key[0].client}
    jobs = {
        "pending": make_job(**own),
        "running": make_running_job(**own),
        "completed": make_completed_job(**own),
        "failed": make_failed_job(**own),
        "timed_out": make_stopped_job("timed_out", "execution_timeout", **own),
        "cancelled": make_stopped_job("cancelled", "user_cancelled", **own),
    }
    assert {name: task_of(mcp, job)["status"] for name, job in jobs.items()} == {
        "pending": "working",
        "running": "working",
        "completed": "completed",
        "failed": "failed",
        "timed_out": "failed",
        "cancelled": "cancelled",
    }


def test_the_result_of_a_completed_task(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    job = make_completed_job(summary("better"), client=key[0].client)
    result = mcp.result("tasks/result", {"taskId": str(job.pk)})
    assert result["_meta"] == {"io.modelcontextprotocol/related-task": {"taskId": str(job.pk)}}
    assert not result["isError"]
    assert checked("run", result)["job"]["verdict"]["names"] == ["better"]


def test_the_result_of_a_failed_task_is_an_error_with_the_state(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    job = make_failed_job("It went wrong.", client=key[0].client)
    result = mcp.result("tasks/result", {"taskId": str(job.pk)})
    assert result["isError"]
    assert checked("run", result)["job"]["statusReason"] == "It went wrong."


def test_the_result_of_an_unfinished_task_is_not_ready(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    job = make_running_job(client=key[0].client)
    error = mcp.answer("tasks/result", {"taskId": str(job.pk)})["error"]
    assert (error["code"], error["data"]["code"]) == (-32602, "result_not_ready")
    assert error["data"]["retryAfterSeconds"] >= 1


def test_tasks_are_listed_in_pages(mcp: Mcp, key: tuple[ApiKey, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "PAGE", 2)
    jobs = [make_job(client=key[0].client) for _ in range(3)]
    make_job()
    first = mcp.result("tasks/list")
    second = mcp.result("tasks/list", {"cursor": first["nextCursor"]})
    types.ListTasksResult.model_validate(first)
    listed = [task["taskId"] for page in (first, second) for task in page["tasks"]]
    assert listed == [str(job.pk) for job in reversed(jobs)]
    assert "nextCursor" not in second
    assert mcp.error("tasks/list", {"cursor": "x"}) == (-32602, "invalid_cursor")


def test_a_list_of_tasks_takes_a_constant_number_of_queries(
    mcp: Mcp, key: tuple[ApiKey, str], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    # The first use of a key is recorded.
    mcp.result("ping")
    for count in (1, 5):
        for _ in range(count):
            make_completed_job(client=key[0].client)
        with django_assert_num_queries(2):
            mcp.result("tasks/list")


def test_cancelling_a_waiting_task_ends_its_job(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    job = make_job(client=key[0].client)
    found = mcp.result("tasks/cancel", {"taskId": str(job.pk)})
    types.CancelTaskResult.model_validate(found)
    job.refresh_from_db()
    assert (found["status"], job.status) == ("cancelled", Status.CANCELLED)


def test_a_cancelled_task_stays_cancelled(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    job = make_running_job(client=key[0].client)
    assert mcp.result("tasks/cancel", {"taskId": str(job.pk)})["status"] == "cancelled"
    job.refresh_from_db()
    assert job.cancel_requested_at is not None
    assert job_moves.finish(job, Outcome(status=Status.COMPLETED, summary=summary()))
    assert task_of(mcp, job)["status"] == "cancelled"
    assert [task["status"] for task in mcp.result("tasks/list")["tasks"]] == ["cancelled"]


def test_an_ended_task_cannot_be_cancelled(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    job = make_completed_job(client=key[0].client)
    assert mcp.error("tasks/cancel", {"taskId": str(job.pk)}) == (-32602, "job_not_cancellable")
    assert not AuditEvent.objects.filter(action="job.cancelled").exists()


def test_only_messages_about_unfinished_jobs_wait(mcp: Mcp, key: tuple[ApiKey, str]) -> None:
    running, ended = make_running_job(client=key[0].client), make_completed_job(client=key[0].client)

    def wants_to_wait(method: str, params: dict[str, Any]) -> bool:
        """Return whether a message asks for a place to wait, which it does not get."""
        owners: list[object] = []
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        mcp.post(message, **{RESERVE: owners.append})
        return bool(owners)

    def wait(job: Job, **arguments: int) -> dict[str, Any]:
        return {"name": "wait", "arguments": {"jobId": str(job.pk), **arguments}}

    assert wants_to_wait("tasks/result", {"taskId": str(running.pk)})
    assert wants_to_wait("tools/call", wait(running))
    assert not wants_to_wait("tools/call", wait(running, seconds=0))
    assert not wants_to_wait("tasks/result", {"taskId": str(ended.pk)})
    assert not wants_to_wait("tools/call", wait(ended))
