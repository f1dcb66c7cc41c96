"""Base view, common types and example values of the jobs API."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, cast

from rest_framework.request import Request
from rest_framework.response import Response

from clients.authentication import Caller
from jobs.api import deprecations
from jobs.api.links import LinkBuilder
from jobs.enums import Priority
from jobs.results import queries
from jobs.submission import accept
from jobs.submission.request import Submission
from simservice.api.endpoint import Endpoint
from simservice.api.operations import Header, Link, Parameter, Source
from simservice.api.revalidation import ETAG, IF_NONE_MATCH, NOT_MODIFIED, revalidate
from simservice.postgresql.connections import DATABASE_UNAVAILABLE
from simservice.shapes import Count, Id, Rule

PriorityName = Annotated[str, Rule(enum=[priority.api_name for priority in Priority])]
Credits = Annotated[int, Rule(minimum=0), "Number of credits"]
Seconds = Annotated[int, Rule(minimum=0), "Duration in seconds"]
Milliseconds = Annotated[int, Rule(minimum=0), "Duration in milliseconds"]
Metadata = Annotated[dict[str, str], "The metadata of the submission, unchanged"]
ExitCode = Annotated[str | None, "The simulator's exit status, or the signal that ended it"]

EXAMPLE_HOST = "https://sim.example.com"
EXAMPLE_JOB_ID = "176352841234500042"
EXAMPLE_TOKEN = "q7VvT0m1xk2bY9d4sLwJ3A"  # noqa: S105 - an example
EXAMPLE_CREATED, EXAMPLE_STARTED = "2026-11-20T08:10:00.123Z", "2026-11-20T08:10:02.456Z"
EXAMPLE_COMPLETED = "2026-11-20T08:10:14.789Z"
EXAMPLE_PROFILE = 'mage="Example"\nlevel=80\nspec=frost\niterations=1000\n'
EXAMPLE_METADATA = {"character": "Example"}

JOB_ID = Parameter(
    name="job_id",
    location="path",
    shape=Id,
    description="The id of the job.",
    example=EXAMPLE_JOB_ID,
    source=Source(operation="listJobs", pointer="/jobs/0/id"),
)
ACTIVE_JOB_HEADERS = (
    # Omitted if the database becomes unavailable after the request was processed.
    Header(
        name="X-Active-Jobs", shape=Count, description="Number of unfinished jobs of the account.", always=False
    ),
    Header(name="X-Max-Active-Jobs", shape=Count, description="Maximum number of unfinished jobs of the account."),
)


def job_links(expression: str) -> dict[str, Link]:
    """Return OpenAPI links to the operations that take the job id at the runtime expression."""
    targets = ("getJob", "getJobStatus", "getJobProfile", "getJobResult", "cancelJob")
    return {target: Link(operation=target, parameters={"job_id": expression}) for target in targets}


class JobsEndpoint(Endpoint):
    """Base view of authenticated endpoints.

    Adds the active-job headers to successful responses, and those about deprecated fields to all responses.
    """

    common_headers: Sequence[Header] = ACTIVE_JOB_HEADERS
    # The number of the account's unfinished jobs, or None if this request has not counted them.
    active_jobs: int | None = None
    # The submissions in the request.
    submissions: Iterable[Submission] = ()

    def caller(self) -> Caller:
        return cast(Caller, self.request.user)

    def links(self) -> LinkBuilder:
        return LinkBuilder.for_request(self.request)

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        final = super().finalize_response(request, response, *args, **kwargs)
        if deprecated := {field for each in self.submissions for field in accept.deprecated_fields(each)}:
            docs_url = self.links().docs("deprecations")
            for name, value in deprecations.headers_for(deprecated, docs_url=docs_url).items():
                final[name] = value
        caller = getattr(request, "user", None) if final.status_code < 400 else None
        if isinstance(caller, Caller):
            final["X-Max-Active-Jobs"] = str(caller.plan.max_active_jobs)
            # The request has succeeded; a database failure here must not turn it into an error.
            with suppress(*DATABASE_UNAVAILABLE):
                counted = self.active_jobs
                final["X-Active-Jobs"] = str(queries.active_jobs(caller.account) if counted is None else counted)
        return final


class PolledEndpoint(JobsEndpoint):
    """Base view of endpoints that clients poll: they answer 304 to a client that has the current body."""

    common_parameters = (IF_NONE_MATCH,)
    common_headers = (*ACTIVE_JOB_HEADERS, ETAG)
    common_responses = {304: NOT_MODIFIED}

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        final = super().finalize_response(request, response, *args, **kwargs)
        if final.status_code == 200:
            final.add_post_render_callback(partial(revalidate, request))
        return final
