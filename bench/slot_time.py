"""How the slots of a sharded job spent their time, according to the rows of its runs."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, kw_only=True)
class SlotRun:
    """One run of a shard: its stage and seat, and the Unix times of its start and end."""

    stage: int
    seat: int
    started: float
    ended: float


@dataclass(frozen=True, kw_only=True)
class SlotTime:
    """Seconds summed over all slots, from the start of the job to its end.

    `simulating`: the simulators' own time. `starting`: from the start of a stage until a slot starts its first
    shard. `between`: from the end of a shard to the start of the next one. `around`: within runs, before and after
    the simulator. `tail`: after a slot's last shard, until the stage's last shard ends. `outside`: before, between
    and after the stages, while the conductor cuts, merges and stores.
    """

    simulating: float
    starting: float
    between: float
    around: float
    tail: float
    outside: float

    @property
    def total(self) -> float:
        return self.simulating + self.starting + self.between + self.around + self.tail + self.outside

    @property
    def efficiency(self) -> float:
        """Return the share of the slots' time in which simulators worked, which is T1 / (n * Tn)."""
        return self.simulating / self.total

    def percent(self, name: str) -> float:
        """Return the share of a part in percent."""
        return float(100 * getattr(self, name) / self.total)


def divided(runs: Iterable[SlotRun], *, slots: int, started: float, ended: float, simulating: float) -> SlotTime:
    """Divide the time of `slots` slots from `started` to `ended`. Simulators worked for `simulating` seconds."""
    stages: dict[int, list[SlotRun]] = defaultdict(list)
    for run in runs:
        stages[run.stage].append(run)
    running = sum(run.ended - run.started for stage in stages.values() for run in stage)
    spans = starting = between = tail = 0.0
    for stage in stages.values():
        first, last = min(run.started for run in stage), max(run.ended for run in stage)
        seats = _by_seat(stage)
        unused = (slots - len(seats)) * (last - first)
        spans += slots * (last - first)
        starting += sum(seat[0].started - first for seat in seats)
        between += sum(after.started - before.ended for seat in seats for before, after in pairwise(seat))
        tail += sum(last - seat[-1].ended for seat in seats) + unused
    return SlotTime(
        simulating=simulating,
        starting=starting,
        between=between,
        around=running - simulating,
        tail=tail,
        outside=slots * (ended - started) - spans,
    )


def _by_seat(runs: Iterable[SlotRun]) -> Sequence[list[SlotRun]]:
    """Return the runs of each seat in the order of their starts."""
    seats: dict[int, list[SlotRun]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.started):
        seats[run.seat].append(run)
    return list(seats.values())
