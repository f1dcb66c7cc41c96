"""The state of lanes and machines, for operators who pause and drain them (`jobs/queue/closures.py`)."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from jobs.enums import CLAIMED, Priority
from jobs.models import Closure, Job
from jobs.queue import closures, forecast
from simservice import worker_heartbeats
from simservice.redis.client import best_effort
from simservice.worker_heartbeats import LiveWorker


class LaneState(NamedTuple):
    """A lane. `waiting` is the number of its waiting jobs as of the latest sweep, None if unknown."""

    lane: Priority
    waiting: int | None
    running: int
    pause: Closure | None


class MachineState(NamedTuple):
    """A machine with simulation workers or a drain.

    `slots` is the number of simulations that its live workers can run at a time, 0 for a drained machine, and
    `running` how many they run. `workers` and `slots` are None while Redis does not respond.
    """

    host: str
    workers: int | None
    slots: int | None
    running: int
    drain: Closure | None


def lanes() -> list[LaneState]:
    """Return all lanes, the best first. Two queries and a request to Redis."""
    snapshot = forecast.current()
    running = Counter(Job.objects.filter(status__in=CLAIMED).values_list("priority", flat=True))
    pauses = {each.lane: each for each in closures.current() if each.lane is not None}
    return [
        LaneState(
            lane, None if snapshot is None else snapshot.waiting[lane.api_name], running[lane], pauses.get(lane)
        )
        for lane in Priority
    ]


def machines() -> list[MachineState]:
    """Return the machines with live workers, running jobs or a drain, by name. Three queries.

    While Redis does not respond, only machines with running jobs or a drain are known.
    """
    workers = best_effort(worker_heartbeats.simulation_workers, default=None)
    live: dict[str, list[LiveWorker]] = {}
    for worker in workers or []:
        live.setdefault(worker.host, []).append(worker)
    claimed = Job.objects.filter(status__in=CLAIMED).values_list("worker", flat=True)
    running = _by_host(claimed) + _by_host(forecast.helpers().values_list("worker", flat=True))
    drains = {each.host: each for each in closures.current() if each.host}
    return [
        MachineState(
            host,
            None if workers is None else len(live.get(host, [])),
            None if workers is None else worker_heartbeats.total_slots(live.get(host, [])),
            running[host],
            drains.get(host),
        )
        for host in sorted(live.keys() | running.keys() | drains.keys())
    ]


def _by_host(slots: Iterable[str]) -> Counter[str]:
    """Count slots, whose names begin with their host, by host."""
    return Counter(slot.partition(":")[0] for slot in slots)
