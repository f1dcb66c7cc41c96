"""Several submissions at once: `POST /v1/{resource}/jobs/batch`."""

import json
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clients import rate_limits
from jobs.api import deprecations, submission_request
from jobs.api.base import JobsEndpoint
from jobs.api.errors import IdempotencyKeyReuse, MaxActiveJobsExceeded
from jobs.api.submission import (
    EXAMPLE_SUBMITTED,
    IDEMPOTENCY,
    REPLAY,
    RefusedSubmission,
    Submitted,
    accepted_body,
    idempotency_key,
    refusal_of,
    refused,
)
from jobs.api.submission_request import EXAMPLE_SMALL_REQUEST, SubmissionFields, from_json
from jobs.submission.accept import Replay
from jobs.submission.batch import MAX_JOBS, Batch
from jobs.submission.request import Submission
from simservice.api import errors
from simservice.api.errors import ApiError, ValidationFailed, example_of
from simservice.api.fields import StrictListField, StrictSerializer, single_values, validated
from simservice.api.operations import Body, Operation, ResponseSpec, documented
from simservice.api.parsers import StrictJSONParser
from simservice.api.scopes import Scope
from simservice.shapes import Rule


@extend_schema_field(SubmissionFields)
class EntryField(serializers.Field[Any, Any, Any, Any]):
    """A submission, whose errors are its own."""

    def run_validation(self, data: Any = None) -> Any:
        return data


class BatchFields(StrictSerializer):
    """Submissions that are accepted or refused one by one."""

    jobs = StrictListField(child=EntryField(), min_length=1, max_length=MAX_JOBS)


class BatchEntry(TypedDict):
    """The outcome of one submission: a job or a refusal, the other one is null."""

    job: Annotated[Submitted | None, "The same as in the response to a single submission"]
    refusal: RefusedSubmission | None


class BatchResult(TypedDict):
    """The outcome of each submission, in the order of the request."""

    jobs: Annotated[list[BatchEntry], Rule(minItems=1, maxItems=MAX_JOBS)]


EXAMPLE_RESULT: BatchResult = {
    "jobs": [
        {"job": EXAMPLE_SUBMITTED, "refusal": None},
        {"job": None, "refusal": refusal_of(example_of(MaxActiveJobsExceeded))},
    ]
}
SUBMIT_BATCH = Operation(
    id="submitBatch",
    tag="Jobs",
    scope=Scope.SUBMIT,
    summary="Submit up to 100 jobs",
    description="Submits jobs one after the other. Each is accepted or refused by itself, with the checks of a "
    "single submission, so the response is 200 even if all are refused. A repetition with the same "
    "`idempotency-key` returns the accepted jobs without submitting them again, and tries the refused ones again. "
    "Each job counts against the rate limit of submissions.",
    parameters=[IDEMPOTENCY],
    bodies={
        "application/json": Body(
            shape=BatchFields, examples={"two": {"jobs": [EXAMPLE_SMALL_REQUEST, EXAMPLE_SMALL_REQUEST]}}
        )
    },
    returns=ResponseSpec(
        description="The outcome of each submission.",
        shape=BatchResult,
        example=EXAMPLE_RESULT,
        headers=[REPLAY, *deprecations.HEADERS],
    ),
    errors=[errors.InvalidJson, IdempotencyKeyReuse, errors.UnsupportedMediaType],
)


NO_HEADERS = "Not allowed for batches. Send `credentials` in each submission instead."


class BatchView(JobsEndpoint):
    """`POST /v1/{resource}/jobs/batch`"""

    submission_methods = ("POST",)
    parser_classes = [StrictJSONParser]

    @documented(SUBMIT_BATCH)
    def post(self, request: Request) -> Response:
        single_values(request.query_params, known=())
        if given := submission_request.credential_headers_in(request.headers):
            raise ValidationFailed([{"path": name, "message": NO_HEADERS} for name in given])
        key = idempotency_key(request)
        entries = validated(BatchFields(data=request.data))["jobs"]
        rate_limits.spend_more(request, self.caller().account, len(entries) - 1)
        submissions, outcomes = read_entries(entries, request)
        self.submissions = submissions.values()
        links = self.links()
        batch = Batch(
            api_key=self.caller().key,
            key=key,
            submissions=submissions,
            render=lambda accepted: accepted_body(accepted, links),
        )
        found = dict(batch.submit())
        outcomes |= {position: entry_of(outcome, request) for position, outcome in found.items()}
        is_replay = any(isinstance(outcome, Replay) for outcome in found.values())
        headers = {"X-Idempotent-Replay": "true"} if is_replay else {}
        return Response({"jobs": [outcomes[position] for position in range(len(entries))]}, headers=headers)


def read_entries(entries: Sequence[Any], request: Request) -> tuple[dict[int, Submission], dict[int, BatchEntry]]:
    """Return the submissions that can be read, and the outcomes of the others, by position."""
    submissions: dict[int, Submission] = {}
    refusals: dict[int, BatchEntry] = {}
    for position, entry in enumerate(entries):
        try:
            submissions[position] = from_json(entry)
        except ApiError as error:
            refusals[position] = entry_of(error, request)
    return submissions, refusals


def entry_of(outcome: str | Replay | Exception, request: Request) -> BatchEntry:
    """Return what the response says of the outcome of a submission."""
    if isinstance(outcome, Exception):
        return {"job": None, "refusal": refused(outcome, request)}
    body = outcome.response if isinstance(outcome, Replay) else outcome
    return {"job": json.loads(body), "refusal": None}
