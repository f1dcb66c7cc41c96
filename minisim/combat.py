"""The combat model, which simulates whole batches of fights at once.

A fight is two streams of events, casts and passive hits. Haste shortens the time between them; each event may crit;
each cast may trigger a proc; cooldown windows temporarily raise all damage. An array has one row per fight and one
column per event; events after the end of a fight are masked.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minisim.sheet import Sheet

Floats = NDArray[np.floating]
WINDOW_PERIOD_SECONDS = 90.0
WINDOW_SECONDS = 20.0
PROC_SECONDS = 8.0  # How long the buff of a proc lasts. It has no effect.
TIMELINE_SECONDS = 3_600  # Later damage is not part of the damage over time, which bounds the size of a report.


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


CAST_SECONDS = 1.4
PASSIVE_SECONDS = 2.2
JITTER = 0.15  # The time between two events varies by this fraction in both directions.
PROC_CHANCE = 0.05
PROC_COEFFICIENT = 3.2
PASSIVE_COEFFICIENT = 0.45
WINDOW_BONUS = 0.3
CLEAVE = 0.6  # The additional damage of each target after the first, as a fraction.
PROC_NAME = "proc"
MAX_EVENTS_PER_BATCH = 200_000  # Bounds memory: a batch of longer fights has fewer rows.


@dataclass(frozen=True, slots=True)
class Encounter:
    """The properties of a fight that affect damage."""

    targets: int
    uptime: float  # The fraction of the fight that is spent attacking.


@dataclass(frozen=True, slots=True)
class Fights:
    """The results of a batch: `damage` by fight; `counts` and `totals` (damage) by ability."""

    damage: NDArray[np.float64]
    counts: NDArray[np.float64]
    totals: NDArray[np.float64]


class Fighter:
    """One actor with its own random numbers."""

    def __init__(self, sheet: Sheet, encounter: Encounter, rng: np.random.Generator) -> None:
        self.sheet = sheet
        self.abilities = [*sheet.actions, PROC_NAME, sheet.passive]
        self._rng = rng
        # A cycle of casts in which the first actions, which have the longest cooldowns, are the rarest
        count = len(sheet.actions)
        order = [index for step in range(count) for index in range(count - 1 - step, count)]
        self._rotation = np.array(order, dtype=np.intp)
        self._coefficients = np.array(list(sheet.actions.values()), dtype=np.float32)
        secondary = (1 + 0.7 * sheet.mastery) * (1 + sheet.versatility)
        area = 1 + CLEAVE * (encounter.targets - 1)
        self._scale = 1.5 * sheet.power * sheet.multiplier * secondary * area * encounter.uptime

    def fight(self, lengths: NDArray[np.float64], record: Record | None = None) -> Fights:
        """Simulate one fight for each of `lengths` (seconds). One without damage is not simulated in detail."""
        if record is not None:
            record.begin(lengths)
        if not self.sheet.actions:
            nothing = np.zeros(len(self.abilities))
            return Fights(damage=np.zeros(len(lengths)), counts=nothing, totals=nothing)
        cast = self._hits(lengths, CAST_SECONDS)
        casts, actions, procs = self._casts(cast)
        tick = self._hits(lengths, PASSIVE_SECONDS)
        passive, hits = tick.strength * np.float32(PASSIVE_COEFFICIENT), int(np.count_nonzero(tick.strength))
        known = len(self.sheet.actions)
        if record is not None:
            record.add(actions, casts * self._scale, cast)
            record.add(np.full_like(actions, known), procs * self._scale, cast)
            record.add(np.full(passive.shape, known + 1), passive * self._scale, tick)
            record.add_procs(np.where(procs > 0, cast.times, np.float32(np.inf)))
        active = actions < known
        counts = np.bincount(actions[active], minlength=known)
        totals = np.bincount(actions[active], weights=casts[active], minlength=known)
        damage = casts.sum(axis=1, dtype=np.float64) + procs.sum(axis=1, dtype=np.float64)
        return Fights(
            damage=(damage + passive.sum(axis=1, dtype=np.float64)) * self._scale,
            counts=np.concatenate([counts, [np.count_nonzero(procs), hits]]).astype(np.float64),
            totals=np.concatenate([totals, [procs.sum(), passive.sum()]]) * self._scale,
        )

    def _casts(self, cast: Hits) -> tuple[Floats, NDArray[np.intp], Floats]:
        """Return the damage of each cast, the index of its action, and proc damage.

        After the end of a fight, the index is one beyond the last action.
        """
        hit = cast.strength
        rows, columns = hit.shape
        start = self._rng.integers(len(self._rotation), size=(rows, 1))
        actions = self._rotation[(start + np.arange(columns)) % len(self._rotation)]
        triggered = self._rng.random(hit.shape, dtype=np.float32) < PROC_CHANCE
        procs = np.where(triggered, hit * np.float32(PROC_COEFFICIENT), np.float32(0))
        damage = hit * self._coefficients[actions]
        return damage, np.where(hit > 0, actions, len(self._coefficients)), procs

    def _hits(self, lengths: NDArray[np.float64], seconds: float) -> Hits:
        interval = seconds / (1 + self.sheet.haste)
        columns = int(lengths.max() / (interval * (1 - JITTER))) + 1
        draws = self._rng.random((3, len(lengths), columns), dtype=np.float32)
        gaps = np.float32(interval) * (np.float32(1 - JITTER) + np.float32(2 * JITTER) * draws[0])
        times = np.cumsum(gaps, axis=1)
        strength = np.float32(0.9) + np.float32(0.2) * draws[1]
        crits = draws[2] < self.sheet.crit
        strength += strength * crits
        strength += strength * (
            np.float32(WINDOW_BONUS) * (times % np.float32(WINDOW_PERIOD_SECONDS) < WINDOW_SECONDS)
        )
        return Hits(times, np.asarray(strength * (times < lengths[:, np.newaxis])), crits)


def batch_rows(max_seconds: float) -> int:
    """Return how many fights of a length fit in one batch, at least one."""
    return max(1, int(MAX_EVENTS_PER_BATCH * CAST_SECONDS / 2 / max_seconds))
