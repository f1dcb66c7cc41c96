"""Dry run of a submission: `POST /v1/{resource}/jobs/validate`."""

from contextlib import AbstractContextManager
from typing import Annotated, TypedDict, cast

from rest_framework.request import Request
from rest_framework.response import Response

from clients.authentication import Caller
from jobs.api import deprecations, submission_request
from jobs.api.base import EXAMPLE_PROFILE, Credits, JobsEndpoint, Seconds
from jobs.api.builds import EXAMPLE_BUILD_ID
from jobs.api.jobs import EXAMPLE_CEILING, Ceiling, ceiling_of
from jobs.api.links import LinkBuilder
from jobs.api.submission import (
    BODIES,
    EXAMPLE_SUBMITTED,
    FORMS,
    SUBMIT_JOB,
    Deprecation,
    ProfileWarning,
    RefusedSubmission,
    deprecation,
    read_submission,
    refused,
)
from jobs.api.submission_request import EXAMPLE_SMALL_REQUEST
from jobs.enums import MultistageReason, StageLabel
from jobs.errors import JobsError
from jobs.planning import estimates
from jobs.planning.estimates import Estimate
from jobs.planning.input_text import shown
from jobs.submission import accept, dry_run
from jobs.submission.dry_run import DryRun
from jobs.submission.request import Submission
from jobs.submission.validation import Sender
from simc.profiles.analysis import LISTED_NAMES, LISTED_WARNINGS
from simc.profiles.policy import LISTED_REFUSALS
from simservice.api import errors
from simservice.api.errors import ApiError
from simservice.api.exception_handler import as_api_error
from simservice.api.operations import FreeExample, Operation, ResponseSpec, documented
from simservice.api.parsers import PlainTextParser, StrictJSONParser
from simservice.api.scopes import Scope
from simservice.shapes import Count, Rule, Uuid


class RefusedLine(TypedDict):
    """A line of the profile that must not run."""

    line: Annotated[Count, "Line of the profile, counted from 1"]
    text: Annotated[
        str, "The option as the simulator reads it, or the whole line if it is not an option; shortened"
    ]
    reason: str


class PlannedStage(TypedDict):
    """A stage that would run."""

    stage: Annotated[int, Rule(minimum=1)]
    label: StageLabel
    targetError: Annotated[float, "In percent of the mean"]


class PlannedStages(TypedDict):
    """Whether the job would run in stages, and why."""

    enabled: bool
    reason: Annotated[MultistageReason, "Why the job would run, or not run, in stages"]
    stages: Annotated[list[PlannedStage], "Empty if the job would run in a single pass"]


class PlannedBuild(TypedDict):
    """The build that would run the job if it started now."""

    id: Uuid
    gitBranch: str
    commit: str
    simcVersion: str


class PlannedRuntime(TypedDict):
    """Limits and priority fee of the job."""

    ceiling: Annotated[Ceiling | None, "Null if the submission exceeds the plan's limits or the profile is refused"]
    priorityFeeCredits: Annotated[Credits, "0 if `high` would not start the job earlier than `standard` now"]


class ExpectedStart(TypedDict):
    """The position in the queue that the job would have."""

    jobsAhead: Annotated[Count, "Approximate number of jobs that would start earlier"]
    estimatedStartSeconds: Annotated[Seconds | None, "Null if unknown"]


class SecondsRange(TypedDict):
    """Simulator seconds."""

    low: Annotated[float, Rule(minimum=0)]
    expected: Annotated[float, Rule(minimum=0)]
    high: Annotated[float, Rule(minimum=0)]


class CreditsRange(TypedDict):
    """The price of runs of these lengths, at most the ceiling, without a priority fee."""

    low: Credits
    expected: Credits
    high: Credits


class EstimateBasis(TypedDict):
    """The past jobs that an estimate uses."""

    jobs: Annotated[int, "Number of past jobs", Rule(minimum=1)]
    ownJobs: Annotated[bool, "Whether all belong to this account"]
    sameBuild: Annotated[bool, "Whether all ran on the build that would run now"]


class JobEstimate(TypedDict):
    """What the job is expected to take. It can take more, up to its ceiling."""

    simSeconds: SecondsRange
    credits: CreditsRange
    basis: EstimateBasis


class Validation(TypedDict):
    """What would happen to a submission now."""

    valid: Annotated[bool, "Whether the submission would be accepted and its job could run"]
    refusal: Annotated[
        RefusedSubmission | None,
        "Null if `valid`. With `build_unavailable`, a submission is accepted, but its job fails at once",
    ]
    refusedLines: Annotated[list[RefusedLine], "The first refused lines", Rule(maxItems=LISTED_REFUSALS)]
    refusedCount: Annotated[Count, "Number of refused options"]
    warnings: Annotated[list[ProfileWarning], Rule(maxItems=LISTED_WARNINGS)]
    deprecations: list[Deprecation]
    variants: Annotated[Count, "Number of profilesets and copies of actors, without those of included files"]
    actors: Annotated[Count, "Number of actors, with copies"]
    names: Annotated[list[str], "The first names of actors", Rule(maxItems=LISTED_NAMES)]
    multiStage: PlannedStages
    build: Annotated[PlannedBuild | None, "Null if no build is available; the job would fail at once"]
    runtime: PlannedRuntime
    start: Annotated[ExpectedStart | None, "Null if the queue is unknown"]
    estimate: Annotated[JobEstimate | None, "Null if no past job is known, or the profile is refused"]


EXAMPLE_VALIDATION: Validation = {
    "valid": True,
    "refusal": None,
    "refusedLines": [],
    "refusedCount": 0,
    "warnings": EXAMPLE_SUBMITTED.get("warnings", []),
    "deprecations": [],
    "variants": 0,
    "actors": 1,
    "names": ["Example"],
    "multiStage": {"enabled": False, "reason": MultistageReason.DISABLED, "stages": []},
    "build": {"id": EXAMPLE_BUILD_ID, "gitBranch": "midnight", "commit": "4f1d0c2", "simcVersion": "1200-01"},
    "runtime": {"ceiling": EXAMPLE_CEILING, "priorityFeeCredits": 0},
    "start": {"jobsAhead": 3, "estimatedStartSeconds": 12},
    "estimate": {
        "simSeconds": {"low": 9.5, "expected": 11.9, "high": 15.0},
        "credits": {"low": 320, "expected": 384, "high": 480},
        "basis": {"jobs": 5, "ownJobs": True, "sameBuild": True},
    },
}
VALIDATE_JOB = Operation(
    id="validateJob",
    tag="Jobs",
    scope=Scope.SUBMIT,
    summary="Check a submission",
    description="Makes the checks of a submission in the same order, and returns what would run and what it would "
    "cost. Stores and charges nothing. The response is 200 even if the submission would be refused; only a request "
    "with invalid fields gets an error. Has a rate limit of its own, which is as high as that of submissions. "
    f"{FORMS}",
    parameters=[parameter for parameter in SUBMIT_JOB.parameters if parameter.name != "idempotency-key"],
    bodies=BODIES,
    free_examples=[
        FreeExample(
            summary="Check a submission in JSON", media_type="application/json", body=EXAMPLE_SMALL_REQUEST
        ),
        FreeExample(
            summary="Check a profile as plain text",
            query="channel=latest",
            media_type="text/plain",
            body=EXAMPLE_PROFILE,
        ),
    ],
    returns=ResponseSpec(
        description="What would happen to the submission now.",
        shape=Validation,
        example=EXAMPLE_VALIDATION,
        headers=deprecations.HEADERS,
    ),
    errors=[errors.InvalidJson, errors.ProfileTooLarge, errors.UnsupportedMediaType],
)


class ValidateView(JobsEndpoint):
    """`POST /v1/{resource}/jobs/validate`"""

    check_methods = ("POST",)
    parser_classes = [StrictJSONParser, PlainTextParser]

    @documented(VALIDATE_JOB)
    def post(self, request: Request) -> Response:
        submission = read_submission(request)
        self.submissions = [submission]
        names = submission_request.named_as_sent(request)
        return Response(validation(submission, request, names=names))


def validation(submission: Submission, request: Request, *, names: AbstractContextManager[None]) -> Validation:
    """Return what would happen to a submission of the caller now. Errors use the field names in `names`."""
    key = cast(Caller, request.user).key
    found = dry_run.run(submission, sender=Sender(key.client, key))
    links = LinkBuilder.for_request(request)
    notices = [deprecation(field, links) for field in accept.deprecated_fields(submission)]
    refusal = refused(_named(found.refusal, names), request) if found.refusal else _failure(found)
    return _validation(found, refusal=refusal, deprecations=notices)


def _named(error: JobsError, names: AbstractContextManager[None]) -> ApiError:
    """Return an error with the field names of the request."""
    try:
        with names:
            raise error
    except (JobsError, ApiError) as raised:
        return as_api_error(raised)


def _failure(found: DryRun) -> RefusedSubmission | None:
    """Return the failure of a job that would be accepted, in the form of a refusal, or None if it could run."""
    if found.failure is None:
        return None
    code = str(found.failure.error_code)
    return {"status": 422, "error": str(found.failure.reason), "code": code, "meta": {"reason": code}}


def _validation(found: DryRun, *, refusal: RefusedSubmission | None, deprecations: list[Deprecation]) -> Validation:
    """Return the body of `POST jobs/validate` (docs/reference/api.md#dry-run)."""
    build, limits, start = found.build, found.ceilings, found.start
    stages: list[PlannedStage] = [
        {"stage": stage.number, "label": stage.label, "targetError": stage.target_error}
        for stage in found.stages.stages
        if stage.target_error is not None
    ]
    return {
        "valid": refusal is None,
        "refusal": refusal,
        "refusedLines": [
            {"line": each.line, "text": shown(each.text), "reason": each.reason} for each in found.refusals
        ],
        "refusedCount": found.refused,
        "warnings": cast(list[ProfileWarning], found.warnings),
        "deprecations": deprecations,
        "variants": found.variants,
        "actors": found.actors,
        "names": list(found.names),
        "multiStage": {"enabled": found.stages.enabled, "reason": found.stages.reason, "stages": stages},
        "build": {
            "id": str(build.pk),
            "gitBranch": build.git_branch,
            "commit": build.commit,
            "simcVersion": build.simc_version,
        }
        if build
        else None,
        "runtime": {
            "ceiling": ceiling_of(limits.credits, limits.runtime_seconds, limits.queue_seconds) if limits else None,
            "priorityFeeCredits": found.fee_credits,
        },
        "start": {"jobsAhead": start.ahead, "estimatedStartSeconds": start.seconds} if start else None,
        "estimate": _estimate(found.estimate, found.price) if found.estimate and found.price else None,
    }


def _estimate(known: Estimate, price: estimates.CreditsRange) -> JobEstimate:
    seconds = known.seconds
    return {
        # Rounded to milliseconds like measured ones
        "simSeconds": {
            "low": round(seconds.low, 3),
            "expected": round(seconds.expected, 3),
            "high": round(seconds.high, 3),
        },
        "credits": {"low": price.low, "expected": price.expected, "high": price.high},
        "basis": {"jobs": known.jobs, "ownJobs": known.is_own, "sameBuild": known.on_build},
    }
