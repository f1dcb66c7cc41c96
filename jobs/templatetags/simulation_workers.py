"""The live simulation workers, for the admin's index."""

from typing import TypedDict

from django import template

from jobs.simulator import layers
from simservice.redis import worker_heartbeats
from simservice.redis.client import best_effort

register = template.Library()


class WorkerRow(TypedDict):
    """A live worker, the number of jobs it runs at a time, and the protections its sandbox lacks."""

    name: str
    slots: int
    lacks: list[str]


@register.simple_tag
def simulation_workers() -> list[WorkerRow]:
    """Return the live simulation workers, those with the weakest sandbox first; none while Redis is down."""
    workers: list[worker_heartbeats.LiveWorker] = best_effort(worker_heartbeats.simulation_workers, default=[])
    rows = [WorkerRow(name=each.name, slots=each.slots, lacks=layers.missing(each.layers)) for each in workers]
    return sorted(rows, key=lambda row: (-len(row["lacks"]), row["name"]))
