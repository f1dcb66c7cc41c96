"""The plan of a sharded stage: whether a stage is split into shards, and how."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate

from jobs.execution import eligibility, shard_sizes, shard_texts
from jobs.execution.conductor import ShardPlan
from jobs.execution.shard_texts import ProfilesetText
from jobs.models import Build, Job
from jobs.planning import durations
from jobs.planning.durations import PastJob
from jobs.planning.multistage import Stage, one_run
from simc.profiles.analysis import Analysis
from simc.profiles.numbers import Numbers


def plan(
    job: Job,
    build: Build,
    stage: Stage,
    *,
    text: str,
    submitted_text: str,
    analysis: Analysis,
    culled: AbstractSet[str],
    replicates: Mapping[str, str],
    has_html: bool,
    measured: PastJob | None,
) -> ShardPlan | None:
    """Return how a stage is split, or None if it runs as one process. At most one query; none with one slot.

    `text` is the profile with its included files. `measured` are the figures of the job's last stage, None before
    the second one.
    """
    if job.parallel_slots < 2:
        return None
    remaining = len(analysis.profilesets.keys() - culled)
    numbers = numbers_of(stage, analysis, replicated=len(replicates) == remaining)
    count = remaining + len(replicates)
    seconds_each = (
        durations.expected_seconds([measured], numbers=numbers)
        if measured
        else durations.expected_set_seconds(job, build, numbers=numbers)
    )
    reason = eligibility.why_whole(
        job,
        analysis,
        text=text,
        submitted_text=submitted_text,
        has_html=has_html,
        count=count,
        iterations=numbers.iterations,
        expected_seconds=None if seconds_each is None else count * seconds_each,
    )
    if reason is not None:
        return None
    profile = shard_texts.cut(text, culled=culled, replicates=replicates, keeps_final_options=stage.is_last)
    lengths = shard_sizes.shard_sizes(count, slots=job.parallel_slots, seconds_each=seconds_each)
    return ShardPlan(stage=stage, profile=profile, numbers=numbers, groups=_grouped(profile.profilesets, lengths))


def numbers_of(stage: Stage, analysis: Analysis, *, replicated: bool) -> Numbers:
    """Return the numbers with which a stage runs its baseline and its profilesets."""
    if stage.target_error is None:
        return analysis.effective_numbers()
    run = one_run(stage, replicated=replicated)
    return Numbers(iterations=run.iterations, target_error=run.target_error or 0.0)


def _grouped(profilesets: Sequence[ProfilesetText], lengths: Sequence[int]) -> list[Sequence[ProfilesetText]]:
    """Return the profilesets in consecutive groups of these lengths."""
    ends = list(accumulate(lengths))
    return [profilesets[end - length : end] for length, end in zip(lengths, ends, strict=True)]
