"""Reads the data that an attempt needs before it runs, with one query."""

from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from jobs.builds import registry
from jobs.enums import Channel
from jobs.models import Build, Job

# Finds the job's build: the pinned build if it is available, otherwise the first build in the channel's order.
# Django reads the build's other columns, some of which are large, only when they are used.
PREPARE = """
    SELECT id, executable, readable_paths, git_branch, commit, simc_version, profiles_path,
        (SELECT text FROM jobs_jobprofile WHERE job_id = %(job_id)s) AS profile_text,
        (SELECT credits FROM billing_hold WHERE job_id = %(job_id)s) AS hold_credits,
        (SELECT cancel_requested_at IS NOT NULL FROM jobs_job WHERE id = %(job_id)s) AS cancel_requested
    FROM jobs_build
    WHERE git_branch = %(git_branch)s AND withdrawn_at IS NULL
    ORDER BY id = %(pinned_build_id)s DESC NULLS LAST, {order}
    LIMIT 1
"""


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """The build that a job runs on now, its profile, its hold, and whether its cancellation was requested."""

    build: Build
    profile_text: str
    hold_credits: int
    cancel_requested: bool


def prepare(job: Job) -> Preparation | None:
    """Return the data that a claimed job needs, or None if no build is available. One query.

    Do not keep the build: it can be withdrawn at any time.
    """
    parameters = registry.order_parameters(timezone.now()) | {
        "job_id": job.pk,
        "git_branch": job.git_branch,
        "pinned_build_id": job.pinned_build_id,
    }
    for build in Build.objects.raw(PREPARE.format(order=registry.ORDERS[Channel(job.channel)]), parameters):
        annotated: Any = build
        return Preparation(
            build=build,
            profile_text=annotated.profile_text,
            hold_credits=annotated.hold_credits,
            cancel_requested=annotated.cancel_requested,
        )
    return None
