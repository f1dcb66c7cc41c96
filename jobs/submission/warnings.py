"""The warnings of a submission: `docs/reference/api.md#warnings`."""

from typing import Any

from jobs.models import Build
from jobs.submission.request import Submission
from simc.profiles.analysis import LISTED_WARNINGS, Analysis, profile_warnings


def warnings_of(submission: Submission, analysis: Analysis, *, build: Build | None) -> list[dict[str, Any]]:
    """Return the warnings of a submission, at most 100. `build` would run the job if it started now."""
    listed = profile_warnings(analysis)
    if submission.html and build is not None and build.html_failure:
        listed = [_without_html(build), *listed]
    return listed[:LISTED_WARNINGS]


def _without_html(build: Build) -> dict[str, Any]:
    """Return the warning that a build cannot write HTML reports. It concerns no line of the profile."""
    message = (
        f"The build {build} cannot write HTML reports, so the job will complete without one. {build.html_failure}"
    )
    return {
        "kind": "html_report_unavailable",
        "line": None,
        "requested": None,
        "applied": None,
        "message": message,
    }
