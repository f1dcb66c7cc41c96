"""Jobs: `GET /v1/{resource}/jobs`, `GET …/jobs/{id}` and `GET …/jobs/{id}/profile`."""

from collections.abc import Sequence
from typing import Annotated, TypedDict, cast

from rest_framework.request import Request
from rest_framework.response import Response

from billing.models import Account
from jobs import api_mode, models
from jobs.api.base import (
    EXAMPLE_COMPLETED,
    EXAMPLE_CREATED,
    EXAMPLE_HOST,
    EXAMPLE_JOB_ID,
    EXAMPLE_METADATA,
    EXAMPLE_PROFILE,
    EXAMPLE_STARTED,
    EXAMPLE_TOKEN,
    JOB_ID,
    Credits,
    ExitCode,
    JobsEndpoint,
    Metadata,
    Milliseconds,
    PolledEndpoint,
    PriorityName,
    Seconds,
    job_links,
)
from jobs.api.builds import EXAMPLE_JOB_BUILD, JobBuild, job_build
from jobs.api.links import LinkBuilder, Links
from jobs.api.list_filters import FILTERS, IDS, MAX_IDS, read_filters, read_ids
from jobs.artifacts import retention
from jobs.enums import ErrorCode, Priority, PublicStatus
from jobs.results import listing, queries
from simservice.api import errors
from simservice.api.operations import FreeExample, Link, Operation, Parameter, ResponseSpec, documented
from simservice.api.pagination import make_cursor, read_cursor, read_limit
from simservice.api.times import iso, iso_or_none
from simservice.shapes import Count, Id, Rule, Time, Uuid

Title = Annotated[str, "The title on the job's page: a given one, the one in `metadata`, or a default one"]


class Ceiling(TypedDict):
    """Limits of a job."""

    maxCredits: Annotated[Credits | None, "Null if the service limits the running time instead"]
    runtimeSeconds: Seconds | None
    queueSeconds: Annotated[Seconds | None, "A job that waits longer fails with `queue_timeout`"]


class Runtime(TypedDict):
    """Usage and limits of a job."""

    simDurationMs: Annotated[Milliseconds | None, "Running time of the simulator. Null if unknown"]
    totalDurationMs: Annotated[Milliseconds | None, "Time from start to end. Null if unknown"]
    creditsConsumed: Annotated[Credits | None, "Null until the job has ended"]
    priorityFeeCredits: Annotated[
        Credits, "The reserved fee until the job ends, then the charged fee. 0 if nothing was billed"
    ]
    creditsPerSecond: Credits
    vcpus: Count
    slotsUsed: Annotated[
        Count | None,
        "Number of slots that ran simulators. Null until the job has ended, if no simulator ran, or if unknown",
    ]
    ceiling: Ceiling


class Job(TypedDict):
    """A job without its result."""

    id: Id
    status: PublicStatus
    priority: PriorityName
    createdAt: Time
    startedAt: Time | None
    completedAt: Time | None
    cancelRequestedAt: Time | None
    pausedAt: Annotated[Time | None, "When the job was paused. Null if it is not paused"]
    errorCode: Annotated[ErrorCode | None, "Why the job did not complete, as a code"]
    statusReason: Annotated[str | None, "Why the job did not complete, as a sentence"]
    simcExitCode: ExitCode
    retentionDays: Annotated[
        Count, "Number of days after submission that links, files and the profile remain available"
    ]
    metadata: Metadata
    title: Title
    runtime: Runtime
    retried: Annotated[
        bool, "Whether the job returned from a worker to the queue, for example after a lost attempt"
    ]
    build: Annotated[JobBuild | None, "Null until the simulator has started"]
    links: Links


class ListedJob(TypedDict):
    """A job in a list."""

    id: Id
    status: PublicStatus
    createdAt: Time
    completedAt: Time | None
    errorCode: Annotated[ErrorCode | None, "Why the job did not complete, as a code"]
    metadata: Metadata
    title: Title
    buildId: Uuid | None
    links: Links


class Page(TypedDict):
    """Position of a page in a list."""

    limit: Annotated[int, Rule(minimum=1, maximum=100)]
    hasMore: bool
    nextCursor: Annotated[str | None, "Value of `cursor` for the next page. Null on the last page"]
    since: Annotated[Time, "Jobs created before this time are no longer listed"]


class JobList(TypedDict):
    """A page of jobs, newest first."""

    jobs: list[ListedJob]
    page: Page


class Profile(TypedDict):
    """Profile of a job."""

    text: Annotated[str, "The profile as submitted"]


EXAMPLE_CEILING: Ceiling = {
    "maxCredits": 3200 if api_mode.current().shows_credit_ceiling else None,
    "runtimeSeconds": 100,
    "queueSeconds": 1800,
}
EXAMPLE_LINKS: Links = {
    "share": f"{EXAMPLE_HOST}/share/{EXAMPLE_TOKEN}",
    "manifest": f"{EXAMPLE_HOST}/manifests/{EXAMPLE_TOKEN}",
}
EXAMPLE_JOB: Job = {
    "id": EXAMPLE_JOB_ID,
    "status": PublicStatus.COMPLETED,
    "priority": "standard",
    "createdAt": EXAMPLE_CREATED,
    "startedAt": EXAMPLE_STARTED,
    "completedAt": EXAMPLE_COMPLETED,
    "cancelRequestedAt": None,
    "pausedAt": None,
    "errorCode": None,
    "statusReason": None,
    "simcExitCode": "0",
    "retentionDays": 30,
    "metadata": EXAMPLE_METADATA,
    "title": "Frosty",
    "runtime": {
        "simDurationMs": 11870,
        "totalDurationMs": 12333,
        "creditsConsumed": 384,
        "priorityFeeCredits": 0,
        "creditsPerSecond": 32,
        "vcpus": 2,
        "slotsUsed": 1,
        "ceiling": EXAMPLE_CEILING,
    },
    "retried": False,
    "build": EXAMPLE_JOB_BUILD,
    "links": EXAMPLE_LINKS,
}
EXAMPLE_CURSOR = "MTc2MzUyODQxMjM0NTAwMDQy.c2lnbmF0dXJl"
EXAMPLE_JOB_LIST: JobList = {
    "jobs": [
        {
            "id": EXAMPLE_JOB_ID,
            "status": PublicStatus.COMPLETED,
            "createdAt": EXAMPLE_CREATED,
            "completedAt": EXAMPLE_COMPLETED,
            "errorCode": None,
            "metadata": EXAMPLE_METADATA,
            "title": "Frosty",
            "buildId": EXAMPLE_JOB_BUILD["id"],
            "links": EXAMPLE_LINKS,
        }
    ],
    "page": {"limit": 25, "hasMore": True, "nextCursor": EXAMPLE_CURSOR, "since": "2026-10-21T08:15:00.000Z"},
}
LIMIT = Parameter(
    name="limit",
    location="query",
    shape=Annotated[int, Rule(minimum=1, maximum=100, default=25)],
    description="Maximum number of jobs on a page.",
    example=25,
)
CURSOR = Parameter(
    name="cursor",
    location="query",
    shape=str,
    description="`page.nextCursor` of the previous page.",
    example=EXAMPLE_CURSOR,
)
LIST_JOBS = Operation(
    id="listJobs",
    tag="Jobs",
    summary="List jobs",
    description="Returns the newest jobs first. For the next page, send `page.nextCursor` as `cursor` until "
    "`page.hasMore` is false, together with the same filters. Filters can be combined. With `metadata.` or both "
    "`client` and `status`, a page can have fewer jobs than `limit`, even none, although `page.hasMore` is true.",
    parameters=[LIMIT, CURSOR, *FILTERS, IDS],
    free_examples=[FreeExample(summary="List the newest completed job", query="status=completed&limit=1")],
    returns=ResponseSpec(
        description="A page of the account's jobs.",
        shape=JobList,
        example=EXAMPLE_JOB_LIST,
        links={
            **job_links("$response.body#/jobs/0/id"),
            "nextPage": Link(operation="listJobs", parameters={"cursor": "$response.body#/page/nextCursor"}),
        },
    ),
    errors=[errors.InvalidCursor],
)
GET_JOB = Operation(
    id="getJob",
    tag="Jobs",
    summary="Get a job",
    description="Returns the job without its result.",
    parameters=[JOB_ID],
    returns=ResponseSpec(
        description="The job.",
        shape=Job,
        example=EXAMPLE_JOB,
    ),
    errors=[errors.NotFound],
)
GET_JOB_PROFILE = Operation(
    id="getJobProfile",
    tag="Jobs",
    summary="Get the profile of a job",
    parameters=[JOB_ID],
    returns=ResponseSpec(
        description="The profile as submitted.",
        shape=Profile,
        example={"text": EXAMPLE_PROFILE},
    ),
    errors=[errors.NotFound],
)


class JobListView(JobsEndpoint):
    """`GET /v1/{resource}/jobs`"""

    @documented(LIST_JOBS)
    def get(self, request: Request) -> Response:  # noqa: ARG002
        account = self.caller().account
        if "ids" in self.query:
            found = listing.jobs_by_id(account, read_ids(self.query))
            self.active_jobs = found.active
            return Response(job_list(account, found.jobs, limit=MAX_IDS, next_cursor=None, links=self.links()))
        limit, filters = read_limit(self.query.get("limit")), read_filters(self.query)
        before = read_cursor(self.query["cursor"], account_id=account.pk) if "cursor" in self.query else None
        found = listing.list_jobs(account, before=before, limit=limit + 1, filters=filters)
        self.active_jobs, page = found.active, found.jobs[:limit]
        last_id = page[-1].pk if len(found.jobs) > limit else found.searched_to
        cursor = make_cursor(account_id=account.pk, last_id=last_id) if last_id is not None else None
        return Response(job_list(account, page, limit=limit, next_cursor=cursor, links=self.links()))


class JobView(PolledEndpoint):
    """`GET /v1/{resource}/jobs/{id}`"""

    @documented(GET_JOB)
    def get(self, request: Request, job_id: str) -> Response:  # noqa: ARG002
        job, self.active_jobs = queries.read_job(self.caller().account, job_id)
        return Response(job_object(job, self.links()))


class JobProfileView(JobsEndpoint):
    """`GET /v1/{resource}/jobs/{id}/profile`"""

    @documented(GET_JOB_PROFILE)
    def get(self, request: Request, job_id: str) -> Response:  # noqa: ARG002
        return Response({"text": queries.profile_of(self.caller().account, job_id)})


def job_list(
    account: Account, jobs: Sequence[models.Job], *, limit: int, next_cursor: str | None, links: LinkBuilder
) -> JobList:
    """Return the body of `GET jobs` (docs/reference/api.md#list-jobs)."""
    page: Page = {
        "limit": limit,
        "hasMore": next_cursor is not None,
        "nextCursor": next_cursor,
        "since": iso(retention.window_start(account)),
    }
    return {"jobs": [_listed_job(job, links) for job in jobs], "page": page}


def _listed_job(job: models.Job, links: LinkBuilder) -> ListedJob:
    return {
        "id": str(job.pk),
        "status": job.public_status,
        "createdAt": iso(job.created_at),
        "completedAt": iso_or_none(job.completed_at),
        "errorCode": error_code(job),
        "metadata": job.metadata,
        "title": job.title,
        "buildId": str(job.build_id) if job.build_id else None,
        "links": links.of(job),
    }


def job_object(job: models.Job, links: LinkBuilder) -> Job:
    """Return the body of `GET jobs/{id}` (docs/reference/api.md#job-object)."""
    return {
        "id": str(job.pk),
        "status": job.public_status,
        "priority": Priority(job.priority).api_name,
        "createdAt": iso(job.created_at),
        "startedAt": iso_or_none(job.started_at),
        "completedAt": iso_or_none(job.completed_at),
        "cancelRequestedAt": iso_or_none(job.cancel_requested_at),
        "pausedAt": iso_or_none(job.paused_at if job.is_paused else None),
        "errorCode": error_code(job),
        "statusReason": job.status_reason,
        "simcExitCode": job.simulator_exit_code,
        "retentionDays": retention.days_of(job),
        "metadata": job.metadata,
        "title": job.title,
        "runtime": _runtime(job),
        "retried": job.retried,
        "build": job_build(job),
        "links": links.of(job),
    }


def error_code(job: models.Job) -> ErrorCode | None:
    """Return the error code of a job, None unless it ended without completing."""
    return cast(ErrorCode | None, job.error_code)


def _runtime(job: models.Job) -> Runtime:
    total = None
    if job.started_at and job.completed_at:
        total = max(0, round((job.completed_at - job.started_at).total_seconds() * 1000))
    return {
        "simDurationMs": job.sim_duration_ms,
        "totalDurationMs": total,
        "creditsConsumed": job.credits_consumed,
        "priorityFeeCredits": job.fee_credits,
        "creditsPerSecond": job.credits_per_second,
        "vcpus": job.vcpus,
        "slotsUsed": job.slots_used,
        "ceiling": ceiling(job),
    }


def ceiling(job: models.Job) -> Ceiling:
    """Return the limits of a job."""
    return ceiling_of(job.ceiling_credits, job.ceiling_runtime_seconds, job.ceiling_queue_seconds)


def ceiling_of(credit_cap: int, runtime_seconds: int | None, queue_seconds: int | None) -> Ceiling:
    """Return limits as an object. Variant R does not report credits (docs/reference/api.md#variants)."""
    return {
        "maxCredits": credit_cap if api_mode.current().shows_credit_ceiling else None,
        "runtimeSeconds": runtime_seconds,
        "queueSeconds": queue_seconds,
    }
