"""What a report lacks of the work that its run was asked to do, and warnings about it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
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
    iterations: int = 0  # The maximum if there is a target error.
    limit: int = 0  # The same, but never 0.
    target_error: float = 0.0  # In percent of the mean.
    # Those of the profilesets that have their own, by name.
    own_iterations: Mapping[str, int] = field(default_factory=dict)
    threads: int = 1
    is_deterministic: bool = False
    # Whether profilesets with fewer iterations are right, as with a controller that cancels some of them.
    profilesets_may_end_early: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortfall:
    """What a report lacks, as a sentence, and whether only profilesets are missing."""

    sentence: str
    only_profilesets: bool = False


def shortfall(report: Report, asked: Asked) -> Shortfall | None:
    """Return what a report lacks of the work that its run was asked to do, or None."""
    if len(report.players) < asked.actors:
        counts = f"{len(report.players):,} of {asked.actors:,}"
        return Shortfall(sentence=f"The simulator returned results for only {counts} characters.")
    sentence = _of_baseline(report, asked) or _of_profilesets(report, asked)
    if sentence:
        return Shortfall(sentence=sentence)
    lacking = asked.profilesets - len(report.profilesets)
    # If nobody does any damage, reports leave profilesets out although they did not fail.
    if lacking <= 0 or report.players[0].dps.mean <= 0:
        return None
    sentence = f"The simulator returned no result for {lacking:,} of {asked.profilesets:,} profilesets."
    return Shortfall(sentence=sentence, only_profilesets=True)


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


_LISTED_NAMES = 3
_NAME_LENGTH = 60


def without_damage(report: Report) -> Iterator[str]:
    """Yield a warning about the actors that did no damage."""
    idle = [player.name for player in report.players if not player.dps.mean]
    if idle:
        yield f"No damage (0 DPS): {_listed(idle)}. Check the level, the talents, the weapons and the action list."


def without_result(report: Report, profilesets: Collection[str]) -> Iterator[str]:
    """Yield a warning about the profilesets without a result."""
    lacking = len(profilesets) - len(report.profilesets)
    if lacking > 0:
        known = {profileset.name for profileset in report.profilesets}
        names = sorted(name for name in profilesets if name not in known)
        subject = "1 profileset has" if lacking == 1 else f"{lacking:,} profilesets have"
        yield f"{subject} no result: {_listed(names)}."


def without_weights_or_plots(report: Report, *, weights: bool, plots: bool, partial: bool) -> Iterator[str]:
    """Yield warnings about stat weights and plots that the profile asks for, if the report has none."""
    if report.details is None:
        return
    for is_wanted, part, title in ((weights, "weights", "stat weights"), (plots, "plots", "plots")):
        if is_wanted and not any(part in actor for actor in report.details["actors"]):
            if partial:
                yield f"The run ended before the {title} were simulated."
            else:
                yield f"The profile asks for {title}, but the simulator's report has none."


def target_not_reached(report: Report, asked: Asked) -> Iterator[str]:
    """Yield a warning if the limit of iterations ended simulations before they reached their target error."""
    if not asked.target_error or not asked.limit:
        return
    errors = list(_unreached(report, asked))
    if errors:
        simulations = "the simulation" if len(errors) == 1 else f"{len(errors):,} simulations"
        yield (
            f"The limit of {asked.limit:,} iterations ended {simulations} before the target error of "
            f"{asked.target_error:g} % was reached. The largest error is {max(errors):.3g} %."
        )


def _unreached(report: Report, asked: Asked) -> Iterator[float]:
    """Yield the errors of the baseline and the profilesets that ended at the limit of iterations."""
    enough = asked.limit - asked.threads
    errors: list[float | None] = []
    if report.players and report.iterations >= enough:
        errors.append(report.error_percent(report.players[0]))
    last_stage = max((entry.stage for entry in report.profilesets), default=1)
    for entry in report.profilesets:
        is_last = entry.stage == last_stage and entry.name not in asked.own_iterations
        if is_last and (entry.iterations or 0) >= enough:
            errors.append(report.error_of(entry.statistics))
    yield from (error for error in errors if error is not None and error > asked.target_error)


def of_partial(report: Report, asked: Asked) -> list[str]:
    """Return a warning about the fight lengths of a run without a target error that ended early.

    See `docs/reference/simulator-command-line.md#iterations-and-errors`.
    """
    details = report.details or {}
    counts = [report.iterations, *(entry.iterations for entry in report.profilesets)]
    is_unfinished = any(count is not None and count < asked.limit - asked.threads for count in counts)
    if asked.target_error or details.get("fight", {}).get("variation") == 0 or not is_unfinished:
        return []
    actors: Sequence[dict[str, dict[str, float]]] = details.get("actors", [])
    found = actors[0].get("fightLength", {}) if actors else {}
    is_known = "min" in found and "max" in found
    lengths = f" The simulated fights lasted {found['min']:.1f} to {found['max']:.1f} s." if is_known else ""
    warning = (
        "These results are biased: without a target error, the simulator begins with fights of average length and "
        f"reaches the shortest and longest ones only at the end.{lengths} Run the job again with fewer "
        "iterations or with a target error."
    )
    return [warning]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name[:_NAME_LENGTH]}'" for name in names[:_LISTED_NAMES])
    more = len(names) - _LISTED_NAMES
    return f"{shown} and {more:,} more" if more > 0 else shown
