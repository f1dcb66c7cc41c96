"""The tools: their descriptions, what they do, and their schemas."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from mcp import types
from rest_framework.serializers import Serializer

from clients import rate_limits
from jobs.api.submission import Submitted, accepted_body
from jobs.api.validate import Validation, validation
from jobs.mcp import answers
from jobs.mcp.answers import CostEstimate, CreditState, Explanation, JobComparison, JobState, Ranking, RunResult
from jobs.mcp.arguments import (
    CompareArguments,
    JobArguments,
    NoArguments,
    RankArguments,
    WaitArguments,
    argument_names,
    read_key,
    read_submission,
    schema_of_fields,
    schema_of_submission,
)
from jobs.mcp.call import Call, require_submit
from jobs.models import Job
from jobs.results import comparison, queries
from jobs.submission import accept
from jobs.submission.accept import Replay
from jobs.submission.idempotency import ByIdempotencyKey
from jobs.submission.validation import Sender
from simservice.api.errors import ValidationFailed
from simservice.api.fields import validated
from simservice.api.jsonschema import Schema, schema_of

Arguments = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool. Its `fields` are None if its arguments are those of a submission."""

    title: str
    description: str
    fields: type[Serializer[Any]] | None
    returns: Any
    answer: Callable[[Call, Arguments], Any]
    # Whether it can be called as a task
    has_tasks: bool = False

    def call(self, call: Call, arguments: Arguments) -> dict[str, Any]:
        """Return the structured result. Raises ApiError or JobsError."""
        read = arguments if self.fields is None else validated(self.fields(data=arguments))
        return cast(dict[str, Any], self.answer(call, read))


def check(call: Call, arguments: Arguments) -> Validation:
    """Return what would happen to a submission now. Raises like `require_submit`, because it uses up a limit."""
    require_submit(call.caller)
    rate_limits.spend_check(call.request, call.account)
    return validation(read_submission(arguments), call.request, names=argument_names())


def estimate(call: Call, arguments: Arguments) -> CostEstimate:
    """Return what a submission is expected to cost."""
    found = check(call, arguments)
    return {
        "valid": found["valid"],
        "refusal": found["refusal"],
        "estimate": found["estimate"],
        "runtime": found["runtime"],
        "start": found["start"],
        "variants": found["variants"],
    }


def run(call: Call, arguments: Arguments) -> RunResult:
    """Submit a job, or find the job of an earlier call with the same idempotency key."""
    submission = submit(call, arguments)
    job = _job(call, submission["id"])
    return {"job": answers.job_state(job, call.links), "submission": submission}


def submit(call: Call, arguments: Arguments) -> Submitted:
    """Submit a job like `POST /v1/{resource}/jobs`. Raises InsufficientScope, RateLimitExceeded, …"""
    require_submit(call.caller)
    rate_limits.spend(call.request, rate_limits.submission_limit(call.account))
    rate_limits.spend_bytes(call.request, call.account)
    once = read_key(arguments)
    submission = read_submission({name: value for name, value in arguments.items() if name != "idempotencyKey"})
    key = call.caller.key
    keyed = ByIdempotencyKey(key, once, submission, render=lambda accepted: accepted_body(accepted, call.links))
    with argument_names():
        outcome = accept.submit(submission, sender=Sender(key.client, key), once=keyed)
    body = outcome.response if isinstance(outcome, Replay) else keyed.response
    return cast(Submitted, json.loads(body))


def wait(call: Call, arguments: Arguments) -> JobState:
    """Return the state of a job once it has changed, or after the given seconds."""
    job = _job(call, arguments["jobId"])
    state = answers.job_state(job, call.links)
    call.wait(job, seconds=arguments["seconds"])
    return state


def rank(call: Call, arguments: Arguments) -> Ranking:
    """Return a part of a job's ranking."""
    job = _job(call, arguments["jobId"])
    return answers.ranking(job, first=arguments["first"], limit=arguments["limit"])


def compare(call: Call, arguments: Arguments) -> JobComparison:
    """Return how jobs differ."""
    try:
        jobs = comparison.own_jobs(call.account, arguments["jobIds"])
    except comparison.CannotCompare as error:
        message = comparison.PROBLEMS[error.problem]
        raise ValidationFailed([{"path": "jobIds", "message": message}]) from None
    return answers.compared_jobs(jobs)


def explain(call: Call, arguments: Arguments) -> Explanation:
    """Return why a job ended as it did."""
    return answers.explanation(_job(call, arguments["jobId"]), call.links)


def credits_of_account(call: Call, _: Arguments) -> CreditState:
    """Return what the account can spend."""
    return answers.credit_state(call.account)


def _job(call: Call, job_id: str) -> Job:
    return queries.read_job(call.account, job_id, with_summary=True)[0]


TOOLS = {
    "check": Tool(
        title="Check a profile",
        description="Checks a SimulationCraft profile without running or charging anything: refused lines, "
        "warnings, the number of variants, the build, the limits and the expected cost.",
        fields=None,
        returns=Validation,
        answer=check,
    ),
    "estimate": Tool(
        title="Estimate the cost",
        description="Returns what a profile would cost and how long it would take, without running it.",
        fields=None,
        returns=CostEstimate,
        answer=estimate,
    ),
    "run": Tool(
        title="Run a simulation",
        description="Submits a SimulationCraft profile as a job, which costs credits. Returns the job at once; "
        "follow it with `wait`. As a task, it returns the job once it has ended.",
        fields=None,
        returns=RunResult,
        answer=run,
        has_tasks=True,
    ),
    "wait": Tool(
        title="Wait for a job",
        description="Waits until the status or the percentage of a job changes and returns its state. Call it "
        "again until `hasEnded` is true.",
        fields=WaitArguments,
        returns=JobState,
        answer=wait,
    ),
    "rank": Tool(
        title="Rank the results",
        description="Returns the variants or actors of an ended job, best first, with margins of error, and a "
        "verdict in words.",
        fields=RankArguments,
        returns=Ranking,
        answer=rank,
    ),
    "compare": Tool(
        title="Compare jobs",
        description="Compares the results of two to four jobs of the account: figures, options, gear, talents, "
        "abilities and common variants.",
        fields=CompareArguments,
        returns=JobComparison,
        answer=compare,
    ),
    "explain": Tool(
        title="Explain a failure",
        description="Says why a job did not complete and what to do next.",
        fields=JobArguments,
        returns=Explanation,
        answer=explain,
    ),
    "credits": Tool(
        title="Show credits",
        description="Returns the credits that the account can spend and what a second of simulation costs.",
        fields=NoArguments,
        returns=CreditState,
        answer=credits_of_account,
    ),
}


@cache
def listed(variant: str) -> list[types.Tool]:  # noqa: ARG001 - the schemas depend on it
    """Return the tools as clients see them, in a variant of the API."""
    return [_listed(name, tool) for name, tool in TOOLS.items()]


def _listed(name: str, tool: Tool) -> types.Tool:
    fields = tool.fields
    return types.Tool(
        name=name,
        title=tool.title,
        description=tool.description,
        inputSchema=schema_of_submission(has_key=tool.has_tasks) if fields is None else schema_of_fields(fields),
        outputSchema=output_schema(tool.returns),
        annotations=types.ToolAnnotations(
            readOnlyHint=not tool.has_tasks, destructiveHint=False, idempotentHint=False, openWorldHint=False
        ),
        execution=types.ToolExecution(taskSupport="optional") if tool.has_tasks else None,
    )


def output_schema(shape: Any) -> Schema:
    """Return the JSON Schema of a shape in one document."""
    defined: dict[str, Schema] = {}

    def define(name: str, _: type, make: Callable[[], Schema]) -> Schema:
        if name not in defined:
            defined[name] = {}
            defined[name] = make()
        return {"$ref": f"#/$defs/{name}"}

    schema_of(shape, define)
    top = defined.pop(shape.__name__)
    return {**top, "$defs": defined} if defined else top
