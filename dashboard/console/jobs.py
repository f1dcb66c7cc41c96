"""Pages of a job for operators, in addition to its admin page: the share page and the profile."""

from django.contrib import admin
from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_safe

from jobs.artifacts import retention
from jobs.models import Job, JobProfile

MAX_CHARACTERS = 200_000


@require_safe
@permission_required(
    ["jobs.view_job", "jobs.view_jobdetails", "jobs.view_jobprofile", "jobs.view_artifact"], raise_exception=True
)
def customer_page(request: HttpRequest, job_id: int) -> HttpResponse:  # noqa: ARG001
    """Redirect to the page that the customer can share.

    The admin shows no tokens of links, so only users who may view all parts of a job are sent there.
    """
    job = get_object_or_404(Job.objects.defer("summary"), pk=job_id)
    if not retention.is_kept(job):
        return redirect("admin:jobs_job_change", job.pk)
    return redirect("share", job.share_token)


@require_safe
@permission_required(["jobs.view_job", "jobs.view_jobprofile"], raise_exception=True)
def profile(request: HttpRequest, job_id: int) -> HttpResponse:
    """Show the profile text of a job, as far as the page can show it."""
    found = get_object_or_404(JobProfile.objects.select_related("job").defer("job__summary"), pk=job_id)
    context = {
        **admin.site.each_context(request),
        "title": "Profile",
        "job": found.job,
        "text": found.text[:MAX_CHARACTERS],
        "characters": len(found.text),
        "most": len(found.text) > MAX_CHARACTERS and MAX_CHARACTERS,
    }
    return render(request, "console/profile.html", context)
