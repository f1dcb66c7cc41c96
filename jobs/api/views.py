"""The API's endpoints for jobs and artifacts."""

from typing import Any, cast

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from clients.authentication import Caller
from jobs import builds, queries, submission
from jobs.api import responses
from jobs.api.requests import read_submission
from jobs.links import Links
from jobs.progress import progress_of
from simservice.api.errors import ResultNotReady, ResultUnavailable, ValidationFailed

# Taking the header without keeping its promise would be worse than refusing it.
NO_IDEMPOTENCY = "This service does not support idempotency keys yet; send the request without one."


class JobsAPIView(APIView):
    """An endpoint that knows its caller and tells how many of the account's jobs are unfinished."""

    # The framework would name OPTIONS in `Allow`, which no endpoint answers.
    http_method_names = [name for name in APIView.http_method_names if name != "options"]

    def caller(self) -> Caller:
        return cast(Caller, self.request.user)

    def links(self) -> Links:
        return Links.for_request(self.request)

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        final = super().finalize_response(request, response, *args, **kwargs)
        caller = getattr(request, "user", None) if final.status_code < 400 else None
        if isinstance(caller, Caller):
            final["X-Active-Jobs"] = str(submission.active_jobs(caller.account))
            final["X-Max-Active-Jobs"] = str(caller.plan.max_active_jobs)
        return final


class JobList(JobsAPIView):
    """`POST /v1/{resource}/jobs`"""

    def post(self, request: Request) -> Response:
        if "Idempotency-Key" in request.headers:
            raise ValidationFailed([{"path": "idempotency-key", "message": NO_IDEMPOTENCY}])
        accepted = submission.submit(read_submission(request.data), key=self.caller().key)
        return Response(responses.submission_response(accepted, self.links()))


class JobDetail(JobsAPIView):
    """`GET /v1/{resource}/jobs/{id}`"""

    def get(self, request: Request, job_id: str) -> Response:  # noqa: ARG002
        job = queries.find_job(self.caller().account, job_id)
        return Response(responses.job_object(job, self.links()))


class JobStatus(JobsAPIView):
    """`GET /v1/{resource}/jobs/{id}/status`"""

    def get(self, request: Request, job_id: str) -> Response:  # noqa: ARG002
        job = queries.find_job(self.caller().account, job_id)
        return Response(responses.status_object(job, progress_of(job)))


class JobResult(JobsAPIView):
    """`GET /v1/{resource}/jobs/{id}/result`"""

    def get(self, request: Request, job_id: str) -> Response:  # noqa: ARG002
        job = queries.find_job(self.caller().account, job_id, with_summary=True)
        if not job.is_terminal:
            raise ResultNotReady({"status": job.status})
        if job.started_at is None:
            raise ResultUnavailable({"status": job.status})
        return Response(responses.result_object(job, queries.artifacts_of(job), self.links()))


class ArtifactUrl(JobsAPIView):
    """`GET /v1/{resource}/artifacts/{id}/url`"""

    def get(self, request: Request, artifact_id: str) -> Response:  # noqa: ARG002
        artifact = queries.find_artifact(self.caller().account, artifact_id)
        return Response({"url": self.links().artifact(artifact)})


class BuildList(JobsAPIView):
    """`GET /v1/{resource}/builds`"""

    def get(self, request: Request) -> Response:  # noqa: ARG002
        return Response(responses.build_list(builds.current()))


class BuildDetail(JobsAPIView):
    """`GET /v1/{resource}/builds/{id}`"""

    def get(self, request: Request, build_id: str) -> Response:  # noqa: ARG002
        return Response(responses.build_object(queries.find_build(build_id)))
