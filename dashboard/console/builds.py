"""Builds, their channels, and the jobs that ran on them in the last hour."""

from uuid import UUID

from django.contrib import admin
from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from jobs import registry
from jobs.models import Build
from jobs.operations import last_hour
from simservice.postgresql.connections import StatementTimeout, statement_timeout

MAX_BUILDS = 50
TIMEOUT_MS = 3_000


@require_safe
@permission_required("jobs.view_build", raise_exception=True)
def builds(request: HttpRequest) -> HttpResponse:
    """List the newest builds, with the channels that use them and the jobs that ran on them in the last hour."""
    channels = {build.pk: names for build, names in current_builds()}
    newest = Build.objects.defer("profiles", "includable", "readable_paths").order_by("-created_at")
    shares = _shares() if request.user.has_perm("jobs.view_job") else {}
    rows = [
        {"build": build, "channels": channels.get(build.pk, []), "share": shares.get(build.pk)}
        for build in newest[:MAX_BUILDS]
    ]
    context = {**admin.site.each_context(request), "title": "Builds", "rows": rows, "max_builds": MAX_BUILDS}
    return render(request, "console/builds.html", context)


def current_builds() -> list[tuple[Build, list[str]]]:
    """Return the builds that are current, each with the names of its channels."""
    names: dict[Build, list[str]] = {}
    for channel, build in registry.current():
        names.setdefault(build, []).append(channel.label.lower())
    return list(names.items())


def _shares() -> dict[UUID, last_hour.BuildShare]:
    """Return what happened on each build in the last hour; nothing if that takes too long."""
    try:
        with statement_timeout(TIMEOUT_MS):
            return last_hour.builds()
    except StatementTimeout:
        return {}
