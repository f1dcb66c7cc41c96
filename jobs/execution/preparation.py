"""Reads the data that an attempt needs before it runs, with one query."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.utils import timezone

from jobs.builds import registry
from jobs.enums import Channel
from jobs.models import Build, Job
from simservice.rows import RowReader
from simservice.statements import Statement, run

_BUILD = RowReader(Build, without=["profiles", "includable"])
# Read the job's build (the pinned build if it is available, otherwise the first build in the channel's order), its
# profile and its hold, and whether its cancellation was requested. Django reads the build's other columns, which
# can be large, only when they are used.
_PREPARE = f"""
    SELECT {_BUILD.columns},
        (SELECT text FROM jobs_jobprofile WHERE job_id = %(job_id)s),
        (SELECT credits FROM billing_hold WHERE job_id = %(job_id)s),
        (SELECT cancel_requested_at IS NOT NULL FROM jobs_job WHERE id = %(job_id)s)
    FROM jobs_build
    WHERE git_branch = %(git_branch)s AND withdrawn_at IS NULL AND NOT id = ANY(%(missing)s::uuid[])
    ORDER BY id = %(pinned_build_id)s DESC NULLS LAST, {{order}}
    LIMIT 1
"""  # noqa: S608 - made of constants
PREPARE = {
    channel: Statement(f"prepare_{channel.value}", _PREPARE.format(order=order))
    for channel, order in registry.ORDERS.items()
}


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """The build that a job runs on now, its profile, its hold, and whether its cancellation was requested."""

    build: Build
    profile_text: str
    hold_credits: int
    cancel_requested: bool


def prepare(job: Job, *, missing: Sequence[UUID] = ()) -> Preparation | None:
    """Return the data that a claimed job needs, or None if no build is available. One query.

    `missing` are builds that this machine lacks. Do not keep the build: it can be withdrawn at any time.
    """
    parameters = registry.order_parameters(timezone.now()) | {
        "job_id": job.pk,
        "git_branch": job.git_branch,
        "pinned_build_id": job.pinned_build_id,
        "missing": list(missing),
    }
    for row in run(PREPARE[Channel(job.channel)], values=parameters):
        profile_text, hold_credits, cancel_requested = row[_BUILD.width :]
        return Preparation(
            build=_BUILD.instance(row),
            profile_text=profile_text,
            hold_credits=hold_credits,
            cancel_requested=cancel_requested,
        )
    return None
