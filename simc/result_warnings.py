"""Warnings of the service about a result: what its report has, compared with what was asked for."""

from collections.abc import Collection, Iterator, Sequence

from simc.reports import Report
from simc.shortfall import Asked

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
        verb = "has" if lacking == 1 else "have"
        yield f"{_count(lacking, 'profileset')} {verb} no result: {_listed(names)}."


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
    if report.players and report.iterations >= enough:
        yield from _above(report.error_percent(report.players[0]), asked)
    last_stage = max((entry.stage for entry in report.profilesets), default=1)
    for entry in report.profilesets:
        is_last = entry.stage == last_stage and entry.name not in asked.own_iterations
        if is_last and (entry.iterations or 0) >= enough:
            yield from _above(report.error_of(entry.statistics), asked)


def _above(error: float | None, asked: Asked) -> Iterator[float]:
    if error is not None and error > asked.target_error:
        yield error


def of_partial(report: Report, asked: Asked) -> list[str]:
    """Return a warning about the fight lengths of a run without a target error that ended early.

    See `docs/reference/simulator-command-line.md#iterations-and-errors`.
    """
    fight = (report.details or {}).get("fight", {})
    if asked.target_error or fight.get("variation") == 0 or not _has_unfinished(report, asked):
        return []
    warning = (
        "These results are biased: without a target error, the simulator begins with fights of average length and "
        f"reaches the shortest and longest ones only at the end.{_lengths(report)} Run the job again with fewer "
        "iterations or with a target error."
    )
    return [warning]


def _has_unfinished(report: Report, asked: Asked) -> bool:
    """Return whether the baseline or a profileset has fewer iterations than asked for."""
    counts = [report.iterations, *(entry.iterations for entry in report.profilesets)]
    return any(count is not None and count < asked.limit - asked.threads for count in counts)


def _lengths(report: Report) -> str:
    """Return the simulated fight lengths as a sentence after a blank, empty if they are unknown."""
    actors: Sequence[dict[str, dict[str, float]]] = (report.details or {}).get("actors", [])
    found = actors[0].get("fightLength", {}) if actors else {}
    if "min" not in found or "max" not in found:
        return ""
    return f" The simulated fights lasted {found['min']:.1f} to {found['max']:.1f} s."


def _listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    shown = ", ".join(f"'{name[:_NAME_LENGTH]}'" for name in names[:_LISTED_NAMES])
    more = len(names) - _LISTED_NAMES
    return f"{shown} and {more:,} more" if more > 0 else shown


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
