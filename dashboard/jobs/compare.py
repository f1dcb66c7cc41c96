"""Pages that compare jobs: an account's own, or those of share links. Their addresses are permanent.

The comparison of share links shows what the share pages show, never the account, the client or the metadata.
"""

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from clients.rate_limits import limited_by_address
from dashboard.access import AccountAccess, account_page
from dashboard.jobs import job_list
from dashboard.jobs.sharing import HEADERS
from dashboard.results.comparison_page import MIN_JOBS, JobLink, query_of, view_of
from jobs.api.links import path_to
from jobs.artifacts import retention
from jobs.errors import NotFound
from jobs.results import comparison
from jobs.results.comparison import MAX_JOBS, CannotCompare, sides_of
from simservice.api.addresses import base_url
from simservice.api.methods import read_only
from simservice.postgresql.connections import snapshot

LISTED_JOBS = 30


@account_page()
def compare(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """Compare two to four jobs of the account, or let the user choose them. Raises Http404 for other jobs."""
    context: dict[str, Any] = {"section": "jobs", "name": "job"}
    try:
        with snapshot():
            jobs = comparison.own_jobs(access.account, request.GET.getlist("job"))
            sides = sides_of(jobs, is_public=False) if len(jobs) >= MIN_JOBS else []
            newest = job_list.newest_ended(access.account, count=LISTED_JOBS) if len(jobs) < MAX_JOBS else []
    except CannotCompare as error:
        return render(
            request, "dashboard/compare.html", context | {"problem": comparison.PROBLEMS[error.problem]}, status=400
        )
    except NotFound:
        raise Http404 from None
    chosen = {job.pk: job.title for job in jobs}
    links = [JobLink(str(job.pk), job.title, reverse("job", args=[access.account.name, job.pk])) for job in jobs]
    context |= {
        "chosen": chosen.items(),
        "page": view_of(sides, links, name="job"),
        "choices": [job for job in newest if job.has_result and job.pk not in chosen],
        "more": MAX_JOBS - len(jobs),
    }
    return render(request, "dashboard/compare.html", context)


@read_only
@limited_by_address
def compare_shared(request: HttpRequest) -> HttpResponse:
    """Compare the jobs of two to four share links, or ask for links. Raises Http404 for an unknown link."""
    response = _compare_links(request)
    for name, value in HEADERS.items():
        response[name] = value
    return response


def _compare_links(request: HttpRequest) -> HttpResponse:
    given = request.GET.getlist("share")
    context: dict[str, Any] = {"name": "share"}
    tokens, refused = _tokens_in(request, given)
    try:
        if refused:
            raise refused
        if tokens != given:
            return HttpResponseRedirect(request.path + query_of("share", tokens))
        with snapshot():
            jobs = comparison.shared_jobs(tokens)
            sides = sides_of(jobs, is_public=True) if len(jobs) >= MIN_JOBS else []
    except CannotCompare as error:
        context |= {"chosen": [(token, "") for token in tokens[: MAX_JOBS - 1]]}
        return render(
            request, "compare.html", context | {"problem": comparison.PROBLEMS[error.problem]}, status=400
        )
    except NotFound:
        raise Http404 from None
    # An expired job is shown only by its state.
    entries = [
        JobLink(job.share_token, job.public_title, path_to("share", job.share_token))
        if retention.is_kept(job)
        else JobLink(job.share_token, comparison.EXPIRED_TITLE, "")
        for job in jobs
    ]
    context |= {
        "chosen": [(entry.key, entry.title) for entry in entries],
        "page": view_of(sides, entries, name="share"),
        "more": MAX_JOBS - len(jobs),
    }
    return render(request, "compare.html", context)


def _tokens_in(request: HttpRequest, links: Iterable[str]) -> tuple[list[str], CannotCompare | None]:
    """Return the tokens of share links, and the error if a text is not one. Empty texts are left out."""
    hosts = {request.get_host(), urlsplit(base_url(request)).netloc}
    tokens, refused = [], None
    for text in filter(str.strip, links):
        try:
            tokens.append(comparison.token_of(text, hosts=hosts))
        except CannotCompare as error:
            refused = error
    return tokens, refused
