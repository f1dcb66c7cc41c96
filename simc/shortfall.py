"""The work that a report contains, compared with the work that its run was asked to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from simc.reports import Report, is_share

# The error is measured a little after the simulator has compared it.
_TOLERANCE = 1.5
_NAME_LENGTH = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a run was asked to do. A number of 0 is not certain and not compared."""

    profilesets: int = 0
    actors: int = 0
    iterations: int = 0
    """The maximum if there is a target error."""
    limit: int = 0
    """The same, but never 0."""
    target_error: float = 0.0
    """In percent of the mean."""
    own_iterations: Mapping[str, int] = field(default_factory=dict)
    """Those of the profilesets that have their own, by name."""
    threads: int = 1
    is_deterministic: bool = False
    profilesets_may_end_early: bool = False
    """Whether profilesets with fewer iterations are right, as with a controller that cancels some of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortfall:
    """What a report lacks, as a sentence, and whether only profilesets are missing."""

    sentence: str
    only_profilesets: bool = False


def shortfall(report: Report, asked: Asked) -> Shortfall | None:
    """Return what a report lacks of the work that its run was asked to do, or None."""
    sentence = _of_actors(report, asked) or _of_baseline(report, asked) or _of_profilesets(report, asked)
    if sentence:
        return Shortfall(sentence=sentence)
    lacking = asked.profilesets - len(report.profilesets)
    # If nobody does any damage, reports leave profilesets out although they did not fail.
    if lacking <= 0 or report.players[0].dps.mean <= 0:
        return None
    sentence = f"The simulator returned no result for {lacking:,} of {asked.profilesets:,} profilesets."
    return Shortfall(sentence=sentence, only_profilesets=True)


def _of_actors(report: Report, asked: Asked) -> str | None:
    if len(report.players) >= asked.actors:
        return None
    return f"The simulator returned results for only {len(report.players):,} of {asked.actors:,} characters."


def _of_baseline(report: Report, asked: Asked) -> str | None:
    fights, expected = report.players[0].fights, asked.iterations
    # The number in the options says what was done only if fights were collected too.
    count = max(report.iterations, fights)
    if not fights or not expected or count >= expected - asked.threads:
        return None
    if asked.is_deterministic and is_share(count, expected, threads=asked.threads):
        return None
    if not asked.target_error:
        return f"The simulator ended after {count:,} of {expected:,} iterations."
    # With several actors, or without the metric of the target, it is unknown which error was compared.
    player = report.players[0]
    error = report.error_percent(player) if len(report.players) == 1 and player.target else None
    if error is None or error <= _TOLERANCE * asked.target_error:
        return None
    return (
        f"The simulator ended after {count:,} of at most {expected:,} iterations, with an error of {error:.3g} % "
        f"instead of {asked.target_error:g} %."
    )


def _of_profilesets(report: Report, asked: Asked) -> str | None:
    """Return which profileset has too few iterations, or None. With a target error, any number can be enough."""
    if asked.target_error or asked.profilesets_may_end_early:
        return None
    for profileset in report.profilesets:
        count, expected = profileset.iterations, asked.own_iterations.get(profileset.name, asked.iterations)
        if not count or not expected or count >= expected - asked.threads:
            continue
        if not is_share(count, expected, threads=asked.threads):
            name = profileset.name[:_NAME_LENGTH]
            return f"The simulator ended the profileset '{name}' after {count:,} of {expected:,} iterations."
    return None
