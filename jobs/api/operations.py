"""What the OpenAPI document says of each operation on jobs, builds, artifacts and usage."""

from typing import Annotated, Any, Literal

from django.conf import settings

from jobs import variants
from jobs.api import examples, shapes
from jobs.api.requests import HEADERS, MAX_CREDENTIAL, MAX_PROFILE_BYTES, PARAMETERS, STORABLE, SubmissionFields
from simservice.api import errors
from simservice.api.operations import WEBHOOKS, Answer, Body, Header, Link, Operation, Parameter, Webhook
from simservice.api.shapes import Count, Id, Rule, Uuid

JOB_ID = Parameter(name="job_id", location="path", shape=Id, description="The job's id", example=examples.JOB_ID)
ARTIFACT_ID = Parameter(
    name="artifact_id", location="path", shape=Id, description="The artifact's id", example=examples.ARTIFACT_ID
)
BUILD_ID = Parameter(
    name="build_id", location="path", shape=Uuid, description="The build's id", example=examples.BUILD_ID
)
TOKEN = Parameter(
    name="token",
    location="path",
    shape=Annotated[str, Rule(pattern="^[A-Za-z0-9_-]{22}$")],
    description="The random part of the address",
    example=examples.TOKEN,
)
LIMIT = Parameter(
    name="limit",
    location="query",
    shape=Annotated[int, Rule(minimum=1, maximum=100, default=25)],
    description="Jobs on a page",
    example=25,
)
CURSOR = Parameter(
    name="cursor",
    location="query",
    shape=str,
    description="`page.nextCursor` of the page before",
    example=examples.CURSOR,
)
INCLUDE = Parameter(
    name="include",
    location="query",
    shape=Literal["logEntries"],
    description="Ask for the last lines that the simulator printed",
    example="logEntries",
)
ACTIVE = [
    # Left out when the database leaves after the answer was made.
    Header(name="X-Active-Jobs", shape=Count, description="The account's unfinished jobs.", always=False),
    Header(name="X-Max-Active-Jobs", shape=Count, description="How many unfinished jobs the account may have."),
]
REPLAYED = Header(
    name="X-Idempotent-Replay",
    shape=Literal["true"],
    description="There when the answer is an earlier one's.",
    always=False,
)
IDEMPOTENCY_KEY = Parameter(
    name="idempotency-key",
    location="header",
    # Whoever transports a header strips the spaces around it.
    shape=Annotated[str, Rule(pattern="^[!-~]([ -~]{0,253}[!-~])?$", maxLength=255)],
    description="A word of your own for this request: sent again with it, the request is answered again and runs "
    "once. Each API key has its own.",
    example="order-4711",
)
PlainProfile = Annotated[
    str, Rule(maxLength=MAX_PROFILE_BYTES, pattern=STORABLE), "The profile, at most 2 MB of UTF-8"
]


def form_field(place: str) -> Any:
    """Return the field at a dotted place of the JSON form, None where this deployment has none."""
    found: Any = SubmissionFields()
    for name in place.split("."):
        found = found and found.fields.get(name)
    return found


def query_parameters() -> list[Parameter]:
    """Return the query parameters of the plain-text form: each stands for a field of the JSON form."""
    known = {name: (place, form_field(place)) for name, (place, _) in PARAMETERS.items()}
    return [
        Parameter(
            name=name,
            location="query",
            shape=field,
            description=f"Plain text only: `{place}`",
            example=examples.QUERY[name],
            style=style_of(name),
        )
        for name, (place, field) in known.items()
        if field is not None
    ]


def style_of(name: str) -> dict[str, Any]:
    """Return how a query parameter is written, and whether it should be at all."""
    if name == "webhookEvents":
        return {"style": "form", "explode": False}
    return {"deprecated": True} if name == variants.current().deprecated_cap_field else {}


def credential_headers() -> list[Parameter]:
    """Return the headers of the plain-text form that carry game credentials, both or neither."""
    word = Annotated[str, Rule(pattern="^[!-~]+$", maxLength=MAX_CREDENTIAL)]
    return [
        Parameter(
            name=name,
            location="header",
            shape=word,
            description=f"Plain text only: `{place}`",
            example=examples.CREDENTIAL,
        )
        for name, place in HEADERS.items()
    ]


def to_jobs(expression: str) -> dict[str, Link]:
    """Return the links to everything that takes the job's id found at `expression`."""
    targets = ("getJob", "getJobStatus", "getJobProfile", "getJobResult", "cancelJob")
    return {target: Link(operation=target, parameters={"job_id": expression}) for target in targets}


SUBMIT_JOB = Operation(
    id="submitJob",
    tag="Jobs",
    summary="Submit a job",
    description="The profile comes as JSON together with everything else, or alone as plain text. The query "
    "parameters and the `X-Bnet-` headers belong to the plain-text form, whose `channel` is required.",
    parameters=[IDEMPOTENCY_KEY, *query_parameters(), *credential_headers()],
    bodies={
        "application/json": Body(
            shape=SubmissionFields,
            examples={"small": examples.SUBMISSION_SMALL, "full": examples.SUBMISSION_FULL},
        ),
        "text/plain": Body(shape=PlainProfile, examples={"small": examples.PROFILE}),
    },
    answers={
        200: Answer(
            description="The job is accepted, or was by an earlier request with the same idempotency key",
            shape=shapes.Submitted,
            example=examples.SUBMITTED,
            headers=[*ACTIVE, REPLAYED],
            links=to_jobs("$response.body#/id"),
        )
    },
    errors=[
        errors.InvalidJson,
        errors.WebhookNotConfigured,
        errors.InsufficientCredits,
        errors.InactiveEntitlement,
        errors.IdempotencyKeyReuse,
        errors.ProfileTooLarge,
        errors.UnsupportedMediaType,
        errors.ProfileRefused,
        errors.TooManyVariants,
        errors.BuildPinNotAllowed,
        errors.BuildPinUnavailable,
        errors.MaxActiveJobsExceeded,
        errors.QueueUnavailable,
        errors.SecretStoreUnavailable,
    ],
)
LIST_JOBS = Operation(
    id="listJobs",
    tag="Jobs",
    summary="List jobs, newest first",
    description="Follow `page.nextCursor` until `page.hasMore` is false.",
    parameters=[LIMIT, CURSOR],
    answers={
        200: Answer(
            description="A page of the account's jobs",
            shape=shapes.JobList,
            example=examples.JOB_LIST,
            headers=ACTIVE,
            links={
                **to_jobs("$response.body#/jobs/0/id"),
                "nextPage": Link(operation="listJobs", parameters={"cursor": "$response.body#/page/nextCursor"}),
            },
        )
    },
    errors=[errors.InvalidCursor],
)
GET_JOB = Operation(
    id="getJob",
    tag="Jobs",
    summary="Read a job",
    description="Everything about a job but its result.",
    parameters=[JOB_ID],
    answers={200: Answer(description="The job", shape=shapes.Job, example=examples.JOB, headers=ACTIVE)},
    errors=[errors.NotFound],
)
GET_JOB_STATUS = Operation(
    id="getJobStatus",
    tag="Jobs",
    summary="Read a job's status",
    description="Cheap, and made to be polled: once a second is plenty. Stop at `completed`, `failed`, `cancelled` "
    "or `timed_out`.",
    parameters=[JOB_ID, INCLUDE],
    answers={
        200: Answer(
            description="How the job is doing", shape=shapes.JobStatus, example=examples.STATUS, headers=ACTIVE
        )
    },
    errors=[errors.NotFound],
)
GET_JOB_PROFILE = Operation(
    id="getJobProfile",
    tag="Jobs",
    summary="Read a job's profile",
    parameters=[JOB_ID],
    answers={
        200: Answer(
            description="The profile as it was submitted",
            shape=shapes.Profile,
            example={"text": examples.PROFILE},
            headers=ACTIVE,
        )
    },
    errors=[errors.NotFound],
)
GET_JOB_RESULT = Operation(
    id="getJobResult",
    tag="Jobs",
    summary="Read a job's result",
    description="The job with its summary and its files, once it has ended.",
    parameters=[JOB_ID],
    answers={
        200: Answer(
            description="The job and its result",
            shape=shapes.JobResult,
            example=examples.RESULT,
            headers=ACTIVE,
            links={
                "getArtifactUrl": Link(
                    operation="getArtifactUrl",
                    parameters={"artifact_id": "$response.body#/result/artifacts/0/id"},
                )
            },
        )
    },
    errors=[errors.NotFound, errors.ResultNotReady, errors.ResultUnavailable],
)
CANCEL_JOB = Operation(
    id="cancelJob",
    tag="Jobs",
    summary="Cancel a job",
    description="A waiting job is cancelled at once; a running one is stopped soon and billed for what ran. "
    "Repeating the call changes nothing.",
    parameters=[JOB_ID],
    answers={
        200: Answer(
            description="The job is cancelled or will be",
            shape=shapes.Cancellation,
            example=examples.CANCELLATION,
            headers=ACTIVE,
            links={"getJobStatus": Link(operation="getJobStatus", parameters={"job_id": "$response.body#/id"})},
        )
    },
    errors=[errors.NotFound, errors.JobNotCancellable],
)
GET_ARTIFACT_URL = Operation(
    id="getArtifactUrl",
    tag="Jobs",
    summary="Find an artifact's address",
    description="The address needs no key: whoever has it may read the artifact.",
    parameters=[ARTIFACT_ID],
    answers={
        200: Answer(
            description="The address",
            shape=shapes.ArtifactUrl,
            example=examples.ARTIFACT_URL,
            headers=ACTIVE,
        )
    },
    errors=[errors.NotFound, errors.ArtifactExpired],
)
LIST_BUILDS = Operation(
    id="listBuilds",
    tag="Builds",
    summary="List what each channel means now",
    answers={
        200: Answer(
            description="The builds",
            shape=shapes.BuildList,
            example=examples.BUILDS,
            headers=ACTIVE,
            links={"getBuild": Link(operation="getBuild", parameters={"build_id": "$response.body#/builds/0/id"})},
        )
    },
)
GET_BUILD = Operation(
    id="getBuild",
    tag="Builds",
    summary="Read a build",
    parameters=[BUILD_ID],
    answers={200: Answer(description="The build", shape=shapes.Build, example=examples.BUILD, headers=ACTIVE)},
    errors=[errors.NotFound],
)
GET_USAGE = Operation(
    id="getUsage",
    tag="Account",
    summary="Read usage and limits",
    answers={
        200: Answer(
            description="What was used and what is allowed",
            shape=shapes.Usage,
            example=examples.USAGE,
            headers=ACTIVE,
        )
    },
)
GET_MANIFEST = Operation(
    id="getManifest",
    tag="Public",
    summary="Read an ended job's manifest",
    description="Needs no key; `links.manifest` of a job has the address.",
    parameters=[TOKEN],
    answers={200: Answer(description="The manifest", shape=shapes.Manifest, example=examples.MANIFEST)},
    errors=[errors.NotFound, errors.RateLimitExceeded],
)
DOWNLOAD_ARTIFACT = Operation(
    id="downloadArtifact",
    tag="Public",
    summary="Download an artifact",
    description="Needs no key. Takes `Range`, `If-Range` and `If-None-Match`, and answers gzip to those who take "
    "it. HTML reports come with a policy that keeps them from acting as a page of this site.",
    parameters=[TOKEN],
    answers={
        200: Answer(
            description="The content",
            shape=Any,
            example="name,dps_mean,dps_min,dps_max,dps_std_dev,dps_mean_std_dev\n",
            media_types=["text/csv", "text/html", "text/plain", "application/json"],
            headers=[
                Header(name="ETag", shape=str, description="Identifies the content."),
                Header(
                    name="Content-Disposition",
                    shape=str,
                    description="Contains the artifact's `name`. Browsers download all files but the HTML report.",
                ),
            ],
        ),
        206: Answer(description="The part that was asked for"),
        304: Answer(description="Nothing new"),
        416: Answer(description="There is no such part"),
    },
    errors=[errors.NotFound, errors.RateLimitExceeded, errors.QueueUnavailable],
)
BRAND = settings.SERVICE_BRAND
WEBHOOKS["job.terminal"] = Webhook(
    id="jobTerminal",
    summary="A job has ended",
    description="Posted to the webhook of the client whose key submitted the job, if the job asked for it. It can "
    "arrive more than once, with the same event id.",
    headers=[
        Parameter(
            name=f"X-{BRAND}-Signature",
            location="header",
            shape=Annotated[str, Rule(pattern="^t=[0-9]+(,v1=[0-9a-f]{64})+$")],
            description="The time in Unix seconds, and the HMAC-SHA256 of the time, a dot and the body with the "
            "signing secret. During an overlap that an owner chose, a second `v1` with the new secret follows",
            example=f"t=1795162214,v1={'6f1c' * 16}",
            required=True,
        ),
        Parameter(
            name=f"X-{BRAND}-Event-Id",
            location="header",
            shape=Annotated[str, Rule(pattern="^evt_[0-9a-f]{32}$")],
            description="The same however often the event is sent",
            example="evt_5f0c8a1e9d3b47c2a6e4f1b09d8c7a63",
            required=True,
        ),
        Parameter(
            name=f"X-{BRAND}-Delivery-Id",
            location="header",
            shape=Annotated[str, Rule(pattern="^dlv_[0-9a-f]{32}$")],
            description="Another one for each attempt",
            example="dlv_0b6c4d2f8e1a4c3b9d7e5f6a1b2c3d4e",
            required=True,
        ),
    ],
    body=Body(shape=shapes.TerminalEvent, examples={"completed": examples.TERMINAL_EVENT}),
    answers={
        "2XX": "Delivered",
        "408": "Tried again later",
        "429": "Tried again later; `Retry-After` is honoured",
        "5XX": "Tried again later; `Retry-After` is honoured. So is no answer within ten seconds",
        "default": "Given up; redirects are not followed",
    },
)
