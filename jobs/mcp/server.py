"""The protocol: answers one JSON-RPC message, without a session."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from mcp import types
from mcp.shared.experimental.tasks.helpers import RELATED_TASK_METADATA_KEY
from mcp.shared.version import SUPPORTED_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from clients import audit
from jobs.api.errors import ResultNotReady
from jobs.api.status import LONGEST_WAIT_SECONDS
from jobs.errors import JobsError
from jobs.lifecycle import cancellation
from jobs.mcp import answers, tasks, tools
from jobs.mcp.call import Call, require_submit
from jobs.results import queries
from simservice.api.errors import ApiError, ValidationFailed, envelope
from simservice.api.exception_handler import add_docs_url, as_api_error

VERSION_HEADER = "MCP-Protocol-Version"
INSTRUCTIONS = (
    "Runs SimulationCraft for World of Warcraft characters. Ask the user for the text of a profile. Use `check` or "
    "`estimate` before `run`, which costs credits. After `run`, call `wait` until `hasEnded` is true, then `rank`. "
    "Call `explain` for a job that did not complete. Say that results are tied if their difference is within its "
    "margin of error."
)
NOT_A_MESSAGE = "Send one JSON-RPC 2.0 request, notification or response. Batches are not supported."


@dataclass(eq=False)
class Refused(Exception):
    """A request that gets a protocol error."""

    code: int
    message: str
    data: Any = None


def require_known_version(version: str | None) -> None:
    """Raise ValidationFailed if a request names a version of the protocol that is not supported."""
    if version is not None and version not in SUPPORTED_PROTOCOL_VERSIONS:
        message = f"Must be one of: {', '.join(SUPPORTED_PROTOCOL_VERSIONS)}."
        raise ValidationFailed([{"path": VERSION_HEADER, "message": message}])


def answer(message: Any, call: Call) -> str | None:
    """Return the response to a message as JSON, or None for a notification or a response.

    Raises ValidationFailed if it is not a message.
    """
    # The union would take a request with an invalid id for a notification.
    kind = (
        types.JSONRPCRequest
        if isinstance(message, dict) and {"id", "method"} <= message.keys()
        else types.JSONRPCMessage
    )
    try:
        parsed = kind.model_validate(message)
    except ValidationError:
        raise ValidationFailed([{"path": "", "message": NOT_A_MESSAGE}]) from None
    if not isinstance(parsed, types.JSONRPCRequest):
        return None
    # Only ASCII, because callers' text can contain characters that UTF-8 cannot encode.
    return json.dumps({"jsonrpc": "2.0", "id": parsed.id, **_outcome(parsed, call)}, allow_nan=False)


def _outcome(request: types.JSONRPCRequest, call: Call) -> dict[str, Any]:
    """Return the part of a response that is its result or its error."""
    try:
        result = _result(request, call)
    except Refused as refusal:
        data = {} if refusal.data is None else {"data": refusal.data}
        return {"error": {"code": refusal.code, "message": refusal.message, **data}}
    # Nulls of structured results stay, because their schemas require them.
    fields = result.model_dump(by_alias=True, exclude_none=True, exclude={"structuredContent"}, mode="json")
    if isinstance(result, types.CallToolResult) and result.structuredContent is not None:
        fields["structuredContent"] = result.structuredContent
    return {"result": fields}


def _result(request: types.JSONRPCRequest, call: Call) -> types.Result:
    """Return the result of a request. Raises Refused."""
    kind, handle = METHODS.get(request.method, (None, None))
    if kind is None or handle is None:
        raise Refused(types.METHOD_NOT_FOUND, "Unknown method.")
    try:
        read = kind.model_validate({"method": request.method, "params": request.params})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))[:100]
        raise Refused(types.INVALID_PARAMS, f"{place}: {first['msg']}") from None
    try:
        return handle(read, call)
    except (ApiError, JobsError) as error:
        raise _refused(error, call) from None


def _refused(error: Exception, call: Call) -> Refused:
    described = _described(error, call)
    return Refused(types.INVALID_PARAMS, described["error"], described)


def _described(error: Exception, call: Call) -> dict[str, Any]:
    """Return the envelope of an error, and when to try again if the HTTP header would say so."""
    named = as_api_error(error)
    add_docs_url(call.request, named)
    found = envelope(named, call.request.META["REQUEST_ID"])
    seconds = named.headers.get("Retry-After")
    return {**found, "retryAfterSeconds": int(seconds)} if seconds else found


def _initialize(request: types.InitializeRequest, _: Call) -> types.InitializeResult:
    asked = request.params.protocolVersion
    return types.InitializeResult(
        protocolVersion=asked if asked in SUPPORTED_PROTOCOL_VERSIONS else types.LATEST_PROTOCOL_VERSION,
        capabilities=types.ServerCapabilities(
            tools=types.ToolsCapability(),
            tasks=types.ServerTasksCapability(
                list=types.TasksListCapability(),
                cancel=types.TasksCancelCapability(),
                requests=types.ServerTasksRequestsCapability(
                    tools=types.TasksToolsCapability(call=types.TasksCallCapability())
                ),
            ),
        ),
        serverInfo=types.Implementation(name="simservice", title=settings.SERVICE_BRAND, version="1"),
        instructions=INSTRUCTIONS,
    )


def _ping(_: types.PingRequest, __: Call) -> types.EmptyResult:
    return types.EmptyResult()


def _list_tools(_: types.ListToolsRequest, __: Call) -> types.ListToolsResult:
    return types.ListToolsResult(tools=tools.listed(settings.API_VARIANT))


def _call_tool(request: types.CallToolRequest, call: Call) -> types.Result:
    """Call a tool. Service errors are results, which the model sees; for tasks, they are protocol errors."""
    params = request.params
    tool, arguments = tools.TOOLS.get(params.name), params.arguments or {}
    if tool is None:
        raise Refused(types.INVALID_PARAMS, "Unknown tool. Call tools/list for the available ones.")
    if params.task is not None and not tool.has_tasks:
        raise Refused(types.METHOD_NOT_FOUND, "This tool cannot be called as a task. Call it without one.")
    if params.task is not None:
        submission = tools.submit(call, arguments)
        return types.CreateTaskResult(task=tasks.task_of(queries.find_job(call.account, submission["id"])))
    try:
        return _tool_result(tool.call(call, arguments))
    except (ApiError, JobsError) as error:
        text = json.dumps(_described(error, call))
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], isError=True)


def _tool_result(found: Mapping[str, Any], *, is_error: bool = False) -> types.CallToolResult:
    """Return a structured result, with a text for clients that do not support structured content."""
    text = types.TextContent(type="text", text=json.dumps(found, allow_nan=False))
    return types.CallToolResult(content=[text], structuredContent=dict(found), isError=is_error)


def _get_task(request: types.GetTaskRequest, call: Call) -> types.GetTaskResult:
    task = tasks.task_of(queries.find_job(call.account, request.params.taskId))
    return types.GetTaskResult(**task.model_dump())


def _get_task_result(request: types.GetTaskPayloadRequest, call: Call) -> types.CallToolResult:
    """Return the result of an ended task's tool. Wait for the end as long as other requests can wait."""
    job, _ = queries.read_job(call.account, request.params.taskId, with_summary=True)
    state = answers.job_state(job, call.links)
    if not job.is_terminal:
        call.wait_for_end(job, seconds=LONGEST_WAIT_SECONDS)
        seconds = str(state["pollAfterSeconds"])
        raise ResultNotReady({"status": job.public_status}, headers={"Retry-After": seconds})
    result = _tool_result({"job": state}, is_error=state["status"] != "completed")
    result.meta = {RELATED_TASK_METADATA_KEY: {"taskId": str(job.pk)}}
    return result


def _list_tasks(request: types.ListTasksRequest, call: Call) -> types.ListTasksResult:
    return tasks.page_of_tasks(call.account, request.params.cursor if request.params else None)


def _cancel_task(request: types.CancelTaskRequest, call: Call) -> types.CancelTaskResult:
    require_submit(call.caller)
    job = queries.find_job(call.account, request.params.taskId)
    cancellation.cancel(job, by=audit.api_key(call.caller.key, call.request))
    task = tasks.task_of(queries.find_job(call.account, request.params.taskId))
    return types.CancelTaskResult(**task.model_dump())


Handler = Callable[[Any, Call], types.Result]
METHODS: dict[str, tuple[type[BaseModel], Handler]] = {
    "initialize": (types.InitializeRequest, _initialize),
    "ping": (types.PingRequest, _ping),
    "tools/list": (types.ListToolsRequest, _list_tools),
    "tools/call": (types.CallToolRequest, _call_tool),
    "tasks/get": (types.GetTaskRequest, _get_task),
    "tasks/result": (types.GetTaskPayloadRequest, _get_task_result),
    "tasks/list": (types.ListTasksRequest, _list_tasks),
    "tasks/cancel": (types.CancelTaskRequest, _cancel_task),
}
