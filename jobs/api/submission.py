"""Job submission: `POST /v1/{resource}/jobs`."""

import re
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast

from django.http import HttpResponse
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from jobs import api_mode
from jobs.api import deprecations, errors, submission_request
from jobs.api.base import (
    EXAMPLE_HOST,
    EXAMPLE_JOB_ID,
    EXAMPLE_METADATA,
    EXAMPLE_PROFILE,
    EXAMPLE_TOKEN,
    Credits,
    JobsEndpoint,
    Metadata,
    job_links,
)
from jobs.api.jobs import EXAMPLE_CEILING, Ceiling, ceiling
from jobs.api.links import LinkBuilder, Links
from jobs.api.submission_request import (
    EXAMPLE_FULL_REQUEST,
    EXAMPLE_SMALL_REQUEST,
    MAX_PROFILE_BYTES,
    STORABLE,
    SubmissionFields,
    from_json,
)
from jobs.submission import accept
from jobs.submission.accept import Accepted, Replay
from jobs.submission.idempotency import ByIdempotencyKey
from jobs.submission.request import Submission
from jobs.submission.validation import Sender
from simservice.api.errors import ApiError, ValidationFailed
from simservice.api.exception_handler import add_docs_url, as_api_error
from simservice.api.operations import Body, Header, Operation, Parameter, ResponseSpec, documented
from simservice.api.parsers import PlainTextParser, StrictJSONParser, is_plain_text
from simservice.api.scopes import Scope
from simservice.shapes import Count, FreeObject, Id, Rule, Url

IDEMPOTENCY_KEY = re.compile(r"[\x20-\x7e]{1,255}\Z")
KEY_RULE = "Must have 1 to 255 printable ASCII characters."


class SubmittedRuntime(TypedDict):
    """Limits and priority fee of an accepted job."""

    ceiling: Ceiling
    priorityFeeCredits: Annotated[
        Credits, "The reserved fee for `high`. 0 if `high` does not start the job earlier than `standard`"
    ]


class ProfileWarning(TypedDict):
    """A correction of the profile, a character that the service does not know, or a report that will be missing."""

    kind: Literal[
        "iterations_clamped", "target_error_floored", "option_replaced", "actor_unknown", "html_report_unavailable"
    ]
    line: Annotated[Count | None, "Line of the profile, counted from 1; null if the warning concerns no line"]
    requested: Annotated[int | float | str | None, "The value in the profile, shortened; null if it has none"]
    applied: Annotated[int | float | None, "The value that applies instead; null if there is none"]
    message: str


class Deprecation(TypedDict):
    """A deprecated field in the request. It still works but will be removed."""

    field: str
    message: str
    docsUrl: Url


class Submitted(TypedDict):
    """An accepted job."""

    success: Literal[True]
    id: Id
    runtime: SubmittedRuntime
    links: Links
    metadata: Metadata
    warnings: NotRequired[Annotated[list[ProfileWarning], "Omitted if there are none"]]
    deprecations: NotRequired[Annotated[list[Deprecation], "Omitted if there are none"]]


class RefusedSubmission(TypedDict):
    """The error of a submission that is refused."""

    status: Annotated[int, "The HTTP status of a single submission with this error", Rule(minimum=400, maximum=599)]
    error: Annotated[str, "What is wrong, as a sentence"]
    code: Annotated[str, "Stable code for programs"]
    meta: Annotated[FreeObject | None, "Details that depend on the code, or null"]


EXAMPLE_SUBMITTED: Submitted = {
    "success": True,
    "id": EXAMPLE_JOB_ID,
    "runtime": {"ceiling": EXAMPLE_CEILING, "priorityFeeCredits": 0},
    "links": {"share": f"{EXAMPLE_HOST}/share/{EXAMPLE_TOKEN}"},
    "metadata": EXAMPLE_METADATA,
    "warnings": [
        {
            "kind": "iterations_clamped",
            "line": 4,
            "requested": 1000000,
            "applied": 250000,
            "message": "iterations=1000000 is outside the service's limits. The job uses 250000 instead.",
        }
    ],
}
PlainProfile = Annotated[
    str, Rule(maxLength=MAX_PROFILE_BYTES, pattern=STORABLE), "The profile, at most 2 MB of UTF-8"
]
BODIES = {
    "application/json": Body(
        shape=SubmissionFields, examples={"small": EXAMPLE_SMALL_REQUEST, "full": EXAMPLE_FULL_REQUEST}
    ),
    "text/plain": Body(shape=PlainProfile, examples={"small": EXAMPLE_PROFILE}),
}
FORMS = (
    "Send JSON, or only the profile as plain text. Query parameters are for plain text only, which requires "
    "`channel`. The `X-Bnet-` headers are read with both."
)
IDEMPOTENCY = Parameter(
    name="idempotency-key",
    location="header",
    # HTTP strips the spaces around a header's value.
    shape=Annotated[str, Rule(pattern="^[!-~]([ -~]{0,253}[!-~])?$", maxLength=255)],
    description="A unique value for this request. If you repeat the request with the same key, you get the "
    "original response and no second job. Idempotency keys are scoped to the API key.",
    example="order-4711",
)
REPLAY = Header(
    name="X-Idempotent-Replay",
    shape=Literal["true"],
    description="Present if a job is from an earlier request with the same idempotency key.",
    always=False,
)
SUBMIT_JOB = Operation(
    id="submitJob",
    tag="Jobs",
    scope=Scope.SUBMIT,
    summary="Submit a job",
    description=FORMS,
    parameters=[IDEMPOTENCY, *submission_request.query_parameters(), *submission_request.credential_headers()],
    bodies=BODIES,
    returns=ResponseSpec(
        description="The job was accepted, now or by an earlier request with the same idempotency key.",
        shape=Submitted,
        example=EXAMPLE_SUBMITTED,
        headers=[REPLAY, *deprecations.HEADERS],
        links=job_links("$response.body#/id"),
    ),
    errors=errors.OF_SUBMISSIONS,
)


class SubmissionView(JobsEndpoint):
    """`POST /v1/{resource}/jobs`"""

    submission_methods = ("POST",)
    parser_classes = [StrictJSONParser, PlainTextParser]

    @documented(SUBMIT_JOB)
    def post(self, request: Request) -> HttpResponse:
        submission = read_submission(request)
        self.submissions = [submission]
        key = self.caller().key
        keyed = ByIdempotencyKey(key, idempotency_key(request), submission, render=self.render_accepted)
        with submission_request.named_as_sent(request):
            outcome = accept.submit(submission, sender=Sender(key.client, key), once=keyed)
        if isinstance(outcome, Replay):
            headers = {"X-Idempotent-Replay": "true"}
            return HttpResponse(outcome.response, content_type="application/json", headers=headers)
        self.active_jobs = outcome.active_jobs
        return HttpResponse(keyed.response, content_type="application/json")

    def render_accepted(self, accepted: Accepted) -> str:
        """Return the body of the response, which is stored with the idempotency key and sent again as it is."""
        return accepted_body(accepted, self.links())


def read_submission(request: Request) -> Submission:
    """Return the submission in a JSON or plain-text request. Raises ProfileTooLarge or ValidationFailed."""
    body: Any = request.data
    if is_plain_text(request.content_type):
        # No parser runs for an empty body.
        return submission_request.from_text(
            body if isinstance(body, str) else "", request.query_params, request.headers
        )
    if request.query_params:
        message = "Query parameters are only allowed with a text/plain body."
        raise ValidationFailed([{"path": name, "message": message} for name in request.query_params])
    return from_json(submission_request.with_credentials(body, request.headers))


def idempotency_key(request: Request) -> str | None:
    """Return the idempotency key of the request, or None. Raises ValidationFailed if it is invalid."""
    key: str | None = request.headers.get("Idempotency-Key")
    if key is not None and not IDEMPOTENCY_KEY.match(key):
        raise ValidationFailed([{"path": "idempotency-key", "message": KEY_RULE}])
    return key


def accepted_body(accepted: Accepted, links: LinkBuilder) -> str:
    """Return the body of an accepted submission as JSON."""
    return bytes(JSONRenderer().render(submitted(accepted, links))).decode()


def refused(error: Exception, request: Request) -> RefusedSubmission:
    """Return what a response says of the error of a submission."""
    named = as_api_error(error)
    add_docs_url(request, named)
    return refusal_of(named)


def refusal_of(error: ApiError) -> RefusedSubmission:
    """Return what a response says of an HTTP error."""
    meta = None if error.meta is None else dict(error.meta)
    return {"status": error.status, "error": error.message, "code": error.code, "meta": meta}


def submitted(accepted: Accepted, links: LinkBuilder) -> Submitted:
    """Return the body of an accepted submission (docs/reference/api.md#submit-a-job)."""
    job = accepted.job
    body: Submitted = {
        "success": True,
        "id": str(job.pk),
        "runtime": {"ceiling": ceiling(job), "priorityFeeCredits": job.priority_fee_credits},
        "links": links.of(job),
        "metadata": job.metadata,
    }
    if accepted.warnings:
        body["warnings"] = cast(list[ProfileWarning], accepted.warnings)
    if accepted.deprecated_fields:
        body["deprecations"] = [deprecation(field, links) for field in accepted.deprecated_fields]
    return body


def deprecation(field: str, links: LinkBuilder) -> Deprecation:
    """Return the notice about a deprecated field."""
    message = f"{field} is deprecated. Send runtime.{api_mode.current().cap_field} instead."
    return {"field": field, "message": message, "docsUrl": links.docs("deprecations")}
