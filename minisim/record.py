"""A record of the baseline's fights, for the details in the JSON report."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
WINDOW_PERIOD_SECONDS = 90.0
WINDOW_SECONDS = 20.0
PROC_SECONDS = 8.0
"""How long the buff of a proc lasts. It has no effect."""
TIMELINE_SECONDS = 3_600
"""Later damage is not part of the damage over time, which bounds the size of a report."""


@dataclass(frozen=True, slots=True)
class Hits:
    """The events of one stream: seconds, the strength relative to a normal hit (0 after the end), and crits."""

    times: Floats
    strength: Floats
    crits: NDArray[np.bool_]


class Record:
    """Sums over all fights of one actor; those by ability are in the order of `Fighter.abilities`."""

    def __init__(self, abilities: int) -> None:
        self.fights = 0
        self.crits = np.zeros(abilities)
        self.dps = np.zeros(abilities)
        self.window_percent = self.windows = self.proc_percent = self.procs = 0.0
        self._damage = np.zeros(TIMELINE_SECONDS)
        self._lasting = np.zeros(TIMELINE_SECONDS)
        self._lengths = np.zeros(0)

    def begin(self, lengths: NDArray[np.float64]) -> None:
        """Start a batch of fights."""
        self.fights += len(lengths)
        self._lengths = lengths
        ends = np.bincount(np.minimum(lengths.astype(int), TIMELINE_SECONDS - 1), minlength=TIMELINE_SECONDS)
        self._lasting += ends[::-1].cumsum()[::-1]
        full, rest = np.divmod(lengths, WINDOW_PERIOD_SECONDS)
        active = full * WINDOW_SECONDS + np.minimum(rest, WINDOW_SECONDS)
        self.window_percent += float((100 * active / lengths).sum())
        self.windows += float(np.ceil(lengths / WINDOW_PERIOD_SECONDS).sum())

    def add(self, abilities: NDArray[np.intp], damage: Floats, hits: Hits) -> None:
        """Add the damage of a stream of events to their abilities and to the damage over time."""
        active = damage > 0
        count = len(self.dps)
        rates = damage / self._lengths[:, np.newaxis]
        self.dps += np.bincount(abilities[active], weights=rates[active], minlength=count)
        self.crits += np.bincount(abilities[active & hits.crits], minlength=count)
        seconds = np.minimum(hits.times[active].astype(int), TIMELINE_SECONDS)
        damage_by_second = np.bincount(seconds, weights=damage[active], minlength=TIMELINE_SECONDS)
        self._damage += damage_by_second[:TIMELINE_SECONDS]

    def add_procs(self, times: Floats) -> None:
        """Add the uptime of the buff of procs; `times` are infinite where there is none."""
        following = np.minimum.accumulate(times[:, ::-1], axis=1)[:, ::-1]
        ends = np.minimum(self._lengths[:, np.newaxis], np.roll(following, -1, axis=1))
        ends[:, -1] = self._lengths
        is_proc = np.isfinite(times)
        active = np.where(is_proc, np.minimum(ends - np.where(is_proc, times, 0), PROC_SECONDS), 0)
        self.proc_percent += float((100 * active.sum(axis=1) / self._lengths).sum())
        self.procs += float(np.count_nonzero(is_proc))

    def damage_over_time(self) -> list[float]:
        """Return the mean damage in each second, of the fights that last until then."""
        lasting = np.count_nonzero(self._lasting)
        return [float(value) for value in self._damage[:lasting] / self._lasting[:lasting]]
