"""The official MCP client, over HTTP and over `simctl mcp`, through a web process that restarts."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import httpx
import jsonschema
import psutil
import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client, types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError

from tests.stack import ROOT, Stack, below
from tests.waiting import wait_until

# The client's methods for tasks are deprecated, because version 2 of the protocol's package has none.
pytestmark = [
    pytest.mark.xdist_group("stack"),
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
# Some seconds of work, so that the job runs while the web process is away
PROFILE = 'mage="Frosty"\nlevel=80\niterations=6000\n' + "".join(
    f"profileset.Ring_{number}+=finger1=,id={number},ilevel=600\n" for number in range(40)
)
# The server can close an idle connection just when the client uses it, and the client does not repeat a message.
NO_KEEP_ALIVE = httpx.Limits(max_keepalive_connections=0)
SUBMISSION = {"profile": PROFILE, "channel": "latest"}
Sessions = Callable[[Stack], AbstractAsyncContextManager[ClientSession]]


@asynccontextmanager
async def over_http(stack: Stack) -> AsyncIterator[ClientSession]:
    """Connect to /mcp with the key as bearer token."""
    headers = {"Authorization": f"Bearer {stack.ready['apiKey']}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=60, limits=NO_KEEP_ALIVE) as http,
        streamable_http_client(f"{stack.ready['url']}/mcp", http_client=http) as (reading, writing, _),
        ClientSession(reading, writing) as session,
    ):
        yield session


@asynccontextmanager
async def over_pipes(stack: Stack) -> AsyncIterator[ClientSession]:
    """Start `simctl mcp` and connect to its pipes."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "sdk" / "python" / "src"),
        "SIMSERVICE_URL": stack.ready["url"],
        "SIMSERVICE_API_KEY": stack.ready["apiKey"],
    }
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "simservice_client.cli", "mcp"], env=environment
    )
    async with stdio_client(command) as (reading, writing), ClientSession(reading, writing) as session:
        yield session


def restart_web(stack: Stack) -> None:
    """Kill the web server and wait until the next one answers."""
    (server, *_) = below(psutil.Process(stack.process.pid), "gunicorn")
    for process in [*server.children(recursive=True), server]:
        process.kill()
    wait_until(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)

    def answers() -> bool:
        try:
            return httpx.get(f"{stack.ready['url']}/healthz").is_success
        except httpx.TransportError:
            return False

    wait_until(answers)


class Checked:
    """A session that validates every structured result against the schema that the server listed."""

    def __init__(self, session: ClientSession, schemas: dict[str, Any]) -> None:
        self.session = session
        self.schemas = schemas

    async def call(self, name: str, **arguments: Any) -> Any:
        return self.valid(name, await self.session.call_tool(name, arguments))

    def valid(self, name: str, result: types.CallToolResult) -> Any:
        assert not result.isError, result.content
        jsonschema.validate(result.structuredContent, self.schemas[name], jsonschema.Draft202012Validator)
        return result.structuredContent


async def use(stack: Stack, session: ClientSession) -> None:
    """Check, estimate, run as a task through a restart, wait, rank, compare, explain, and count credits."""
    started = await session.initialize()
    assert started.capabilities.tasks is not None
    listed = (await session.list_tools()).tools
    checked = Checked(session, {tool.name: tool.outputSchema for tool in listed})
    assert {"check", "estimate", "run", "wait", "rank", "compare", "explain", "credits"} == checked.schemas.keys()

    assert (await checked.call("check", **SUBMISSION))["valid"]
    assert (await checked.call("estimate", **SUBMISSION))["variants"] == 40
    before = (await checked.call("credits"))["available"]

    first = await through_a_restart(stack, checked)
    second = (await checked.call("run", **SUBMISSION, idempotencyKey=f"after {first}"))["job"]["id"]
    while not (await checked.call("wait", jobId=second))["hasEnded"]:
        pass
    ranking = await checked.call("rank", jobId=second, limit=5)
    assert (ranking["count"], len(ranking["results"])) == (40, 5)
    compared = await checked.call("compare", jobIds=[first, second])
    assert [job["missing"] for job in compared["jobs"]] == [None, None]
    assert (await checked.call("credits"))["available"] < before
    await explain_a_failure(checked)


async def through_a_restart(stack: Stack, checked: Checked) -> str:
    """Run a job as a task, restart the web process, and return the id after its result."""
    tasks = checked.session.experimental
    task = (await tasks.call_tool_as_task("run", SUBMISSION)).task
    assert task.status == "working"
    await anyio.to_thread.run_sync(restart_web, stack)
    async for state in tasks.poll_task(task.taskId):
        assert state.status in ("working", "completed")
    assert task.taskId in [each.taskId for each in (await tasks.list_tasks()).tasks]
    found = checked.valid("run", await tasks.get_task_result(task.taskId, types.CallToolResult))
    assert (found["job"]["id"], found["job"]["status"]) == (task.taskId, "completed")
    return task.taskId


async def explain_a_failure(checked: Checked) -> None:
    """Run what fails, cancel what runs, and ask why they ended."""
    failing = (await checked.call("run", profile='mage="Frosty"\nmax_time=abc\n', channel="latest"))["job"]["id"]
    while not (await checked.call("wait", jobId=failing))["hasEnded"]:
        pass
    explained = await checked.call("explain", jobId=failing)
    assert explained["status"] == "failed"
    assert explained["advice"]
    tasks = checked.session.experimental
    task = (await tasks.call_tool_as_task("run", SUBMISSION)).task
    assert (await tasks.cancel_task(task.taskId)).status == "cancelled"
    with pytest.raises(McpError):
        await tasks.get_task("999999999999999999")


@pytest.mark.parametrize("sessions", [over_http, over_pipes])
def test_the_official_client_uses_every_tool(stack: Stack, sessions: Sessions) -> None:
    async def scenario() -> None:
        async with sessions(stack) as session:
            await use(stack, session)

    anyio.run(scenario)


def test_a_waiting_task_over_pipes_outlives_the_web_process(stack: Stack) -> None:
    """The command repeats the question for the result until the next web process answers it."""

    async def scenario() -> None:
        async with over_pipes(stack) as session:
            await session.initialize()
            tasks = session.experimental
            task = (await tasks.call_tool_as_task("run", SUBMISSION)).task
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, restart_web, stack)
                result = await tasks.get_task_result(task.taskId, types.CallToolResult)
            assert result.structuredContent is not None
            assert result.structuredContent["job"]["status"] == "completed"

    anyio.run(scenario)
