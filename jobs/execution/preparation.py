"""Reads the data that an attempt needs before it runs, with one query."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.utils import timezone

from jobs import registry
from jobs.models import Build, Job
from simservice.postgresql.statements import RowReader, load, run

_BUILD = RowReader(Build, without=["profiles", "includable"])
SQL = load(__file__, columns=_BUILD.columns)


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
    for row in run(SQL[f"prepare_{job.channel}"], values=parameters):
        profile_text, hold_credits, cancel_requested = row[_BUILD.width :]
        return Preparation(
            build=_BUILD.instance(row),
            profile_text=profile_text,
            hold_credits=hold_credits,
            cancel_requested=cancel_requested,
        )
    return None
