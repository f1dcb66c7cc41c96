"""The work that a stage is asked to do, as far as its text is certain about it."""

from collections.abc import Collection

from jobs.execution.shard_plan import numbers_of
from jobs.planning.multistage import Stage
from simc.profiles.analysis import Analysis
from simc.profiles.numbers import read_integer
from simc.shortfall import Asked

# With these options, a report can lack actors, or have the iterations of one of several actors.
_HIDES_ACTORS = "quiet"
_COUNTS_ONE_ACTOR = "single_actor_batch"


def asked_of(
    stage: Stage, analysis: Analysis, *, text: str, culled: Collection[str], replicated: bool, threads: int
) -> Asked:
    """Return what a stage is asked to do. `text` is the profile with its included files."""
    numbers = numbers_of(stage, analysis, replicated=replicated)
    return Asked(
        profilesets=len(analysis.profilesets) - len(culled) if analysis.reports_all else 0,
        actors=0 if _HIDES_ACTORS in text else len(set(analysis.names)),
        iterations=0 if _COUNTS_ONE_ACTOR in text else numbers.iterations,
        limit=min(numbers.iterations, analysis.bounds.iterations),
        target_error=numbers.target_error,
        own_iterations={
            name: 0 if name in analysis.numbers["target_error"] else _iterations(analysis, name)
            for name in analysis.profilesets
            if any(name in own for own in analysis.numbers.values())
        },
        threads=threads,
        is_deterministic="deterministic" in text,
        profilesets_may_end_early=analysis.cancels_profilesets,
    )


def _iterations(analysis: Analysis, profileset: str | None) -> int:
    """Return the number that the base or a profileset names, within the limits; 0 if it names none."""
    written = analysis.numbers["iterations"].get(profileset)
    return min((written and read_integer(written.value)) or 0, analysis.bounds.iterations)
