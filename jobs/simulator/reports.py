"""What the service uses of a simulator's JSON report."""

from dataclasses import dataclass, replace
from typing import Any


class BrokenReport(Exception):
    """The report cannot be used; `reason` says why, with the subject "it"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Statistics:
    """One metric over all iterations, in the metric's unit; zeros if nothing was collected."""

    mean: float
    mean_stddev: float
    """The standard error of the mean."""
    stddev: float
    min: float
    max: float

    @property
    def mean_error(self) -> float:
        """Return half the width of the 95 % confidence interval, regardless of the profile's `confidence`."""
        return 1.96 * self.mean_stddev


@dataclass(frozen=True, slots=True)
class Player:
    """An actor of the profile, in the profile's order; only the first has talents and gear."""

    name: str
    dps: Statistics
    talents: str = ""
    gear: tuple[dict[str, Any], ...] = ()
    """Items in the layout of the summary."""
    reached: bool = True
    """Whether at least one iteration finished. A mean of 0 does not tell: an actor may do no damage."""


@dataclass(frozen=True, slots=True)
class Profileset:
    """A profileset's result, in the first metric that the profile names."""

    name: str
    statistics: Statistics
    stage: int


@dataclass(frozen=True, slots=True)
class NotReached:
    """How many actors and profilesets have no result because the run was stopped early."""

    actors: int
    profilesets: int
    baseline: bool
    """Whether the profile's first actor is one of them."""


@dataclass(frozen=True, slots=True)
class Report:
    """One report, with at least one player."""

    players: tuple[Player, ...]
    profilesets: tuple[Profileset, ...]
    raid_dps: Statistics
    iterations: int
    """Finished iterations of the baseline."""
    errors: tuple[str, ...]
    """Messages that the simulator grades as severe. Versions before August 2025 have no grades."""
    warnings: tuple[str, ...] = ()
    """The simulator's warnings."""
    not_reached: "NotReached | None" = None
    """The players and profilesets that were left out because the run was stopped early."""

    def only_reached(self, *, profilesets: int) -> "Report":
        """Return the report of a stopped run without the entries that finished no iteration.

        `profilesets` is the expected number; 0 if complete reports leave out some too.
        """
        reached = tuple(player for player in self.players if player.reached)
        baseline = self.players[0]
        # If the baseline does no damage, reports leave out simulated profilesets too.
        does_nothing = baseline.reached and not baseline.dps.mean
        lacking = 0 if does_nothing else max(0, profilesets - len(self.profilesets))
        missed = NotReached(
            actors=len(self.players) - len(reached), profilesets=lacking, baseline=not baseline.reached
        )
        return replace(self, players=reached, not_reached=missed)

    @property
    def baseline(self) -> Player | None:
        """Return the profile's first actor, or None if it was not reached."""
        return None if self.not_reached and self.not_reached.baseline else self.players[0]
