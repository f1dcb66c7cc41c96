"""Template tag that lists the live simulation workers on the admin index."""

from typing import TypedDict

from django import template

from jobs.simulator import layers
from simservice.redis import worker_heartbeats
from simservice.redis.client import best_effort

register = template.Library()


class WorkerRow(TypedDict):
    """A live worker, the number of jobs it runs at once, and the protections that its sandbox lacks."""

    name: str
    slots: int
    lacks: list[str]


@register.simple_tag
def simulation_workers() -> list[WorkerRow]:
    """Return the live simulation workers, the weakest sandbox first. Empty if Redis does not respond."""
    workers: list[worker_heartbeats.LiveWorker] = best_effort(worker_heartbeats.simulation_workers, default=[])
    rows = [WorkerRow(name=each.name, slots=each.slots, lacks=layers.missing(each.layers)) for each in workers]
    return sorted(rows, key=lambda row: (-len(row["lacks"]), row["name"]))
