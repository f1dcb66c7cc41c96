"""Compatible addresses for community scripts, if `COMPATIBLE_ADDRESSES` is set (docs/how-to/use-existing-tools.md).

Scripts written for the largest public simulation site submit to `POST /sim`, poll `GET /api/job/{id}` without a key
and read `/reports/{id}/data.json`. Here, `simId` is the token of the share link, which is public but cannot be
guessed. A submission passes the same checks as `POST /v1/{resource}/jobs`, in the same order.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clients.authentication import KeyAuthentication, well_formed
from clients.rate_limits import length_of, limited_by_address
from jobs.api import submission_request
from jobs.api.base import JobsEndpoint
from jobs.api.links import path_to
from jobs.api.status import GET_JOB_STATUS
from jobs.api.submission import SUBMIT_JOB, idempotency_key
from jobs.enums import Channel, Priority, PublicStatus
from jobs.errors import NotFound
from jobs.live.progress import progress_of
from jobs.models import Job
from jobs.queue import forecast
from jobs.results import queries
from jobs.submission import accept
from jobs.submission.accept import Accepted
from jobs.submission.idempotency import ByIdempotencyKey
from jobs.submission.request import Submission
from jobs.submission.validation import Sender
from simservice.api import errors
from simservice.api.errors import MissingToken, RequestTooLarge, ValidationFailed, error_response
from simservice.api.fields import (
    StrictCharField,
    StrictChoiceField,
    StrictIntegerField,
    StrictListField,
    StrictSerializer,
    single_values,
    validated,
)
from simservice.api.methods import read_only
from simservice.api.operations import documented
from simservice.api.parsers import StrictJSONParser

# Smaller than other bodies, because a body is parsed before its key is known.
MAX_BODY_WITH_KEY = 4 << 20
TYPES = ("quick", "advanced")
# Fields of the site's form that do not change the result
IGNORED = frozenset({"baseActorName", "email", "sendEmail", "frontendHost", "frontendVersion"})
NO_TEXT = "Required. Send the profile as advancedInput or text."
TWO_TEXTS = "Send the profile as advancedInput or text, not both."
BODY_TOO_LARGE = "A body with `apiKey` must be at most 4 MB. Send Authorization: Bearer <API key> instead."
NO_IDEMPOTENCY_KEY = "Not supported at this address. To repeat submissions safely, use the service's own API."
STATES: dict[PublicStatus, str] = {
    PublicStatus.PENDING: "inactive",
    PublicStatus.QUEUED: "inactive",
    PublicStatus.RUNNING: "active",
    PublicStatus.COMPLETED: "complete",
}
# Files of the share link, by the names that scripts read below /reports/{simId}/
FILES = {
    "data.json": "data.json",
    "data.full.json": "data.full.json",
    "data.csv": "data.csv",
    "input.txt": "input.txt",
    "output.txt": "output.txt",
    "index.html": "report.html",
}


class SimAccepted(TypedDict):
    """An accepted job: the token of its share link, and its id."""

    simId: str
    jobId: str


class JobProgress(TypedDict):
    """A job, as scripts read it."""

    id: str
    state: str
    progress: float


class QueuePlace(TypedDict):
    """The place in the queue, counted from 1, and the number of waiting jobs; 0 once the job has started.

    Null while unknown.
    """

    position: int | None
    total: int | None


class JobAnswer(TypedDict):
    """The response to a poll. The service retries by itself, so a failed job has no retries left."""

    job: JobProgress
    queue: QueuePlace
    retriesRemaining: Literal[0]


class NoJobFound(errors.NotFound):
    """A job that does not exist. Scripts read `message`."""

    raised_keys = ("message",)

    def __init__(self) -> None:
        super().__init__({"message": "No job found"})


class KeyInBody(KeyAuthentication):
    """Authentication with the API key in `Authorization` or in the field `apiKey` of a JSON body."""

    def secret_of(self, request: Request) -> str:
        """Return the well-formed key. Raises MissingToken, InvalidToken, or an error of the body's parser."""
        if "Authorization" in request.headers:
            return super().secret_of(request)
        if length_of(request) > MAX_BODY_WITH_KEY:
            raise RequestTooLarge(message=BODY_TOO_LARGE)
        secret = request.data.get("apiKey") if isinstance(request.data, Mapping) else None
        if not isinstance(secret, str) or not secret:
            raise MissingToken(message="Send an API key: Authorization: Bearer <API key>, or the field apiKey.")
        return well_formed(secret)


class IterationsField(StrictIntegerField):
    """A number of iterations, or `smart`, which keeps the profile's number."""

    def to_internal_value(self, data: Any) -> Any:
        return None if data == "smart" else super().to_internal_value(data)

    def run_validators(self, value: Any) -> None:
        if value is not None:
            super().run_validators(value)


class SimType(StrictSerializer):
    """The type of a simulation: both run the profile as it is."""

    type = StrictChoiceField(choices=TYPES)


class SimFields(SimType):
    """The fields of `POST /sim` that are read."""

    advancedInput = submission_request.ProfileTextField(allow_blank=True, required=False)
    text = submission_request.ProfileTextField(allow_blank=True, required=False)
    simcVersion = StrictChoiceField(choices=Channel.values, default=Channel.WEEKLY.value)
    iterations = IterationsField(min_value=1, required=False)
    smartStages = StrictListField(
        child=serializers.FloatField(min_value=0, max_value=100), max_length=10, required=False
    )
    reportName = StrictCharField(max_length=submission_request.MAX_METADATA_VALUE, allow_blank=True, required=False)
    # Read by `KeyInBody`
    apiKey = StrictCharField(allow_blank=True, required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        sent = [name for name in ("advancedInput", "text") if attrs.get(name, "").strip()]
        if len(sent) != 1:
            raise serializers.ValidationError({"advancedInput": TWO_TEXTS if sent else NO_TEXT})
        return {**attrs, "profile": attrs[sent[0]]}


class SimView(JobsEndpoint):
    """`POST /sim`, which needs the scope of a submission."""

    # Not in the OpenAPI document, which describes the API that every deployment has.
    schema = None
    submission_methods = ("POST",)
    authentication_classes = [KeyInBody]
    parser_classes = [StrictJSONParser]

    @documented(SUBMIT_JOB)
    def post(self, request: Request) -> HttpResponse:
        single_values(request.query_params, known=())
        if idempotency_key(request) is not None:
            raise ValidationFailed([{"path": "idempotency-key", "message": NO_IDEMPOTENCY_KEY}])
        submission = read_submission(request.data)
        key = self.caller().key
        once = ByIdempotencyKey(key, None, submission, render=accepted_body)
        outcome = accept.submit(submission, sender=Sender(key.client, key), once=once)
        if isinstance(outcome, Accepted):
            self.active_jobs = outcome.active_jobs
        return HttpResponse(once.response, content_type="application/json")


def accepted_body(accepted: Accepted) -> str:
    """Return the body of an accepted submission as JSON."""
    body: SimAccepted = {"simId": accepted.job.share_token, "jobId": str(accepted.job.pk)}
    return json.dumps(body)


def read_submission(body: Any) -> Submission:
    """Return the submission in the body of `POST /sim`. Raises ProfileTooLarge or ValidationFailed."""
    fields = validated(SimFields(data=_sent_fields(body)))
    title, profile = fields.get("reportName"), {"text": profile_text(fields)}
    submission_request.reject_large_profile({"profile": profile})
    return submission_request.normalized(
        {
            "build": {"channel": fields["simcVersion"]},
            "profile": profile,
            "runtime": {"multiStage": bool(fields.get("smartStages"))},
            "priority": Priority.STANDARD.api_name,
            "metadata": {"title": title} if title else {},
            # Scripts read /reports/{simId}/index.html and /data.csv of any job.
            "artifacts": {"html": True, "csv": True},
        }
    )


def profile_text(fields: Mapping[str, Any]) -> str:
    """Return the profile with the request's options as its last lines, where they override earlier ones."""
    options = []
    if fields.get("iterations") is not None:
        options.append(f"iterations={fields['iterations']}")
    if fields.get("smartStages"):
        options.append(f"target_error={fields['smartStages'][-1]:g}")
    return "\n".join([fields["profile"], *options, ""]) if options else fields["profile"]


def _sent_fields(body: Any) -> Any:
    """Return a body without ignored fields and without unknown fields that are empty.

    Raises ValidationFailed for an unsupported type alone, because errors in its other fields would hide the reason.
    """
    if not isinstance(body, Mapping):
        return body
    validated(SimType(data={name: value for name, value in body.items() if name == "type"}))
    known = SimFields().fields.keys()
    sent = {name: value for name, value in body.items() if name not in IGNORED}
    return {name: value for name, value in sent.items() if name in known or value not in (None, "", [], {})}


class JobByIdView(JobsEndpoint):
    """`GET /api/job/{id}` with the job's id and the API key of its account."""

    schema = None

    @documented(GET_JOB_STATUS)
    def get(self, request: Request, job_id: str) -> Response:
        single_values(request.query_params, known=())
        try:
            job, self.active_jobs = queries.poll_job(self.caller().account, job_id)
        except NotFound:
            raise NoJobFound from None
        return Response(job_answer(job))


@read_only
@limited_by_address
def job_by_token(request: HttpRequest, token: str) -> HttpResponse:
    """Respond with the state of the job of a share link."""
    job = queries.poll_shared(token)
    response = error_response(NoJobFound(), request) if job is None else JsonResponse(job_answer(job))
    response["Access-Control-Allow-Origin"] = "*"
    return response


def job_answer(job: Job) -> JobAnswer:
    """Return the response to a poll."""
    return {
        "job": {
            "id": str(job.pk),
            "state": STATES.get(job.public_status, "failed"),
            "progress": progress_of(job).percent,
        },
        "queue": _place_of(job),
        "retriesRemaining": 0,
    }


def _place_of(job: Job) -> QueuePlace:
    """Return the place of a job in the queue. No query."""
    if not job.is_waiting:
        return {"position": 0, "total": 0}
    snapshot = forecast.current()
    if snapshot is None:
        return {"position": None, "total": None}
    position = snapshot.position_of(job).ahead + 1
    # The snapshot can be older than the job.
    return {"position": position, "total": max(position, sum(snapshot.waiting.values()))}


@read_only
@limited_by_address
def to_share_link(request: HttpRequest, token: str, suffix: str) -> HttpResponse:  # noqa: ARG001
    """Redirect to the share link, or to a file of it, which returns 404 if it does not exist."""
    # Without the header, a script in a browser cannot follow the redirect.
    return HttpResponseRedirect(path_to("share", token) + suffix, headers={"Access-Control-Allow-Origin": "*"})


urlpatterns = [
    path("sim", limited_by_address(SimView.as_view())),
    path("api/job/<token:token>", job_by_token),
    path("api/job/<str:job_id>", limited_by_address(JobByIdView.as_view())),
    *(
        path(f"reports/<token:token>/{name}", to_share_link, {"suffix": f"/{target}"})
        for name, target in FILES.items()
    ),
    path("simbot/report/<token:token>", to_share_link, {"suffix": ""}),
    path("simbot/report/<token:token>/data.json", to_share_link, {"suffix": "/data.json"}),
]
