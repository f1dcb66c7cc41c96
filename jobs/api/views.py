"""The API's endpoints for jobs, builds, artifacts and usage."""

import re
from contextlib import suppress
from typing import Any, cast

from django.http import HttpResponse
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from clients import audit, rate_limits
from clients.authentication import Caller
from jobs import cancellation, queries, usage
from jobs.api import operations, responses
from jobs.api.links import Links
from jobs.api.requests import named_as_sent, read_submission
from jobs.builds import registry
from jobs.progress import log_entries_of, progress_of
from jobs.submission import accept
from jobs.submission.accept import Accepted, Replay
from jobs.submission.idempotency import KeyedRequest
from jobs.submission.validation import Sender
from simservice.api.endpoint import Endpoint
from simservice.api.errors import ResultNotReady, ResultUnavailable, ValidationFailed
from simservice.api.operations import documented
from simservice.api.pagination import make_cursor, read_cursor, read_limit
from simservice.api.parsers import PlainTextParser, StrictJSONParser
from simservice.database import DATABASE_UNAVAILABLE

IDEMPOTENCY_KEY = re.compile(r"[\x20-\x7e]{1,255}\Z")


class JobsEndpoint(Endpoint):
    """An endpoint that knows its caller and says how many of the account's jobs are unfinished."""

    def caller(self) -> Caller:
        return cast(Caller, self.request.user)

    def links(self) -> Links:
        return Links.for_request(self.request)

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        final = super().finalize_response(request, response, *args, **kwargs)
        caller = getattr(request, "user", None) if final.status_code < 400 else None
        if isinstance(caller, Caller):
            final["X-Max-Active-Jobs"] = str(caller.plan.max_active_jobs)
            # What the answer tells has been done, so a database that left since does not take it back.
            with suppress(*DATABASE_UNAVAILABLE):
                final["X-Active-Jobs"] = str(accept.active_jobs(caller.account))
        return final


class JobList(JobsEndpoint):
    """`POST /v1/{resource}/jobs` and `GET /v1/{resource}/jobs`"""

    submission_methods = ("POST",)
    parser_classes = [StrictJSONParser, PlainTextParser]

    @documented(operations.SUBMIT_JOB)
    def post(self, request: Request) -> HttpResponse:
        asked = read_submission(request)
        key = self.caller().key
        keyed = KeyedRequest(key, idempotency_key(request), asked, render=self.render_accepted)
        with named_as_sent(request):
            outcome = accept.submit(asked, sender=Sender(key.client, key), deduplication=keyed)
        if isinstance(outcome, Replay):
            headers = {"X-Idempotent-Replay": "true"}
            return HttpResponse(outcome.response, content_type="application/json", headers=headers)
        return HttpResponse(self.render_accepted(outcome), content_type="application/json")

    def render_accepted(self, accepted: Accepted) -> str:
        """Return the body of the response, which is stored with the idempotency key and sent again as it is."""
        answer = responses.submission_response(accepted, self.links())
        return bytes(JSONRenderer().render(answer)).decode()

    @documented(operations.LIST_JOBS)
    def get(self, request: Request) -> Response:  # noqa: ARG002
        account, limit = self.caller().account, read_limit(self.asked.get("limit"))
        before = read_cursor(self.asked["cursor"], account_id=account.pk) if "cursor" in self.asked else None
        jobs = queries.newest_jobs(account, before=before, limit=limit + 1)
        page = jobs[:limit]
        more = len(jobs) > limit
        cursor = make_cursor(account_id=account.pk, last_id=page[-1].pk) if more else None
        return Response(responses.job_list(page, limit=limit, next_cursor=cursor, links=self.links()))


def idempotency_key(request: Request) -> str | None:
    """Return the submission's idempotency key, or None. Raises ValidationFailed (contract, section 3)."""
    key: str | None = request.headers.get("Idempotency-Key")
    if key is not None and not IDEMPOTENCY_KEY.match(key):
        message = "Must have 1 to 255 printable ASCII characters."
        raise ValidationFailed([{"path": "idempotency-key", "message": message}])
    return key


class JobDetail(JobsEndpoint):
    """`GET /v1/{resource}/jobs/{id}`"""

    @documented(operations.GET_JOB)
    def get(self, request: Request, job_id: str) -> Response:  # noqa: ARG002
        job = queries.find_job(self.caller().account, job_id)
        return Response(responses.job_object(job, self.links()))


class JobStatus(JobsEndpoint):
    """`GET /v1/{resource}/jobs/{id}/status`: polled, so all that changes while a job waits or runs is in Redis."""

    @documented(operations.GET_JOB_STATUS)
    def get(self, request: Request, job_id: str) -> Response:  # noqa: ARG002
        if self.asked.get("include", "logEntries") != "logEntries":
            raise ValidationFailed([{"path": "include", "message": "Must be: logEntries."}])
        job = queries.find_job(self.caller().account, job_id)
        entries = log_entries_of(job) if "include" in self.asked else None
        return Response(responses.status_object(job, progress_of(job), entries))


class JobProfile(JobsEndpoint):
    """`GET /v1/{resource}/jobs/{id}/profile`"""

    @documented(operations.GET_JOB_PROFILE)
    def get(self, request: Request, job_id: str) -> Response:  # noqa: ARG002
        return Response({"text": queries.profile_of(self.caller().account, job_id)})


class JobCancel(JobsEndpoint):
    """`POST /v1/{resource}/jobs/{id}/cancel`"""

    @documented(operations.CANCEL_JOB)
    def post(self, request: Request, job_id: str) -> Response:
        job = queries.find_job(self.caller().account, job_id)
        done = cancellation.cancel(job, by=audit.api_key(self.caller().key, request))
        return Response(responses.cancellation(job, done))


class JobResult(JobsEndpoint):
    """`GET /v1/{resource}/jobs/{id}/result`"""

    @documented(operations.GET_JOB_RESULT)
    def get(self, request: Request, job_id: str) -> Response:  # noqa: ARG002
        job = queries.find_job(self.caller().account, job_id, with_summary=True)
        if not job.is_terminal:
            raise ResultNotReady({"status": job.public_status})
        if job.started_at is None:
            raise ResultUnavailable({"status": job.public_status})
        return Response(responses.result_object(job, queries.artifacts_of(job), self.links()))


class ArtifactUrl(JobsEndpoint):
    """`GET /v1/{resource}/artifacts/{id}/url`"""

    @documented(operations.GET_ARTIFACT_URL)
    def get(self, request: Request, artifact_id: str) -> Response:  # noqa: ARG002
        artifact = queries.find_artifact(self.caller().account, artifact_id)
        return Response({"url": self.links().artifact(artifact)})


class BuildList(JobsEndpoint):
    """`GET /v1/{resource}/builds`"""

    @documented(operations.LIST_BUILDS)
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return Response(responses.build_list(registry.current()))


class BuildDetail(JobsEndpoint):
    """`GET /v1/{resource}/builds/{id}`"""

    @documented(operations.GET_BUILD)
    def get(self, request: Request, build_id: str) -> Response:  # noqa: ARG002
        return Response(responses.build_object(queries.find_build(build_id)))


class Usage(JobsEndpoint):
    """`GET /v1/{resource}/usage`"""

    @documented(operations.GET_USAGE)
    def get(self, request: Request) -> Response:  # noqa: ARG002
        caller = self.caller()
        period, snapshot = usage.this_month(caller.account), usage.snapshot(caller.account)
        reads = rate_limits.reads(caller)
        return Response(responses.usage_object(period, snapshot, plan=caller.plan, reads=reads))
