"""The variants that a stopped job did not simulate, as a request of their own."""

from collections.abc import Iterable

from jobs import api_mode
from jobs.enums import Channel, Priority
from jobs.models import Job
from jobs.planning.input_text import bounds
from jobs.results import endings, rankings
from jobs.submission.request import Submission
from simc.profiles.analysis import analyse_submitted
from simc.profiles.includes import has_includes
from simc.profiles.policy import Rules
from simc.profiles.selection import remaining_lines

CREDENTIALS = "The job used game credentials, which were deleted when it ended. Run the whole job again with them."
INCLUDES = "The profile includes other files, so its variants cannot be separated. Run the whole job again."
UNCLEAR = "The report does not show which variants were simulated. Run the whole job again."


class NotSeparable(Exception):
    """The remaining variants of a job cannot run alone. The message says why and what to do."""


def names_of(job: Job, profilesets: Iterable[str]) -> list[str]:
    """Return which profilesets of a job's profile have no result of any stage, in their order.

    Raises NotSeparable if the result does not name all that were simulated. At most one query.
    """
    best = rankings.listed(((job.summary or {}).get("mainActor") or {}).get("profilesets", {}).get("results", []))
    simulated = {entry.name for entry in rankings.entries_of(job) or best}
    names = [name for name in profilesets if name not in simulated]
    # Reports cut very long names, and the list of a large result can be incomplete.
    if not names or len(names) != endings.missed_variants(job):
        raise NotSeparable(UNCLEAR)
    return names


def submission_of(job: Job, text: str) -> Submission:
    """Return a request for the variants of a stopped job that it did not simulate, with its profile and options.

    Raises NotSeparable.
    """
    if job.has_credentials:
        raise NotSeparable(CREDENTIALS)
    if has_includes(text):
        raise NotSeparable(INCLUDES)
    analysis = analyse_submitted(text, rules=Rules(), bounds=bounds())
    remaining = frozenset(names_of(job, analysis.profilesets))
    in_credits = api_mode.current().cap_field == "maxCredits"
    is_capped = job.max_credits is not None
    return Submission(
        channel=Channel(job.channel),
        git_branch=job.git_branch,
        build_id=job.pinned_build_id,
        profile_text=_text_of(text, without=analysis.profilesets.keys() - remaining),
        multi_stage=job.multi_stage,
        max_credits=job.max_credits if in_credits else None,
        max_runtime_seconds=job.ceiling_runtime_seconds if is_capped and not in_credits else None,
        max_queue_seconds=job.ceiling_queue_seconds,
        priority=Priority(job.priority),
        metadata=job.metadata,
        credentials=None,
        html=job.html,
        csv=job.csv,
        hides_inputs=not job.shares_inputs,
        json_version=job.json_version,
        webhook_events=("job.terminal",) if job.wants_webhook else (),
    )


def _text_of(text: str, *, without: Iterable[str]) -> str:
    """Return a profile without some profilesets. A comment comes first, as `remaining_lines` requires."""
    lines = remaining_lines(text, without_profilesets=frozenset(without), without_options=(), replicates={})
    return "\n".join(["# The variants that an earlier job did not simulate", *lines, ""])
