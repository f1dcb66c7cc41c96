"""Paused lanes and drained machines.

No slot claims a job of a paused lane. Its claimed jobs continue, and other slots still help with their shards.

A drained machine claims nothing. Its jobs and shards end or return to the queue as if its workers were shut down
(`simservice/shutdown.py`), but the workers keep running, and claim again once the drain has ended.

Every claim reads the rows, so both take effect at once. Only running work learns of a drain later: the sweep
publishes the drained hosts in Redis, where workers read them with their heartbeat.
"""

import re

from django.db.models import QuerySet
from django.db.models.functions import Now

from clients.audit import MAX_LABEL_CHARACTERS, Actor
from jobs.enums import Priority
from jobs.models import Maintenance

HOST = re.compile(r"[A-Za-z0-9._-]{1,253}")
MAX_REASON_CHARACTERS = 200


class InvalidHost(Exception):
    """The text is not a host name."""


def pause_lane(lane: Priority, *, by: Actor, reason: str = "") -> bool:
    """Let no slot claim jobs of a lane. Return False if it is paused already."""
    return _begin(lane=lane, by=by, reason=reason)


def resume_lane(lane: Priority, *, by: Actor) -> bool:
    """Let slots claim jobs of a lane again. Return False if it is not paused. Slots wake at the next sweep."""
    return _end(by, lane=lane)


def drain_machine(host: str, *, by: Actor, reason: str = "") -> bool:
    """Let a machine claim nothing, and hand back what it runs. Return False if it is drained. Raises InvalidHost.

    No worker needs to run on the machine.
    """
    if not HOST.fullmatch(host):
        raise InvalidHost(host)
    return _begin(host=host, by=by, reason=reason)


def resume_machine(host: str, *, by: Actor) -> bool:
    """Let a machine claim work again. Return False if it is not drained."""
    return _end(by, host=host)


def _begin(*, by: Actor, reason: str, lane: Priority | None = None, host: str = "") -> bool:
    values = {"began_by": by.label[:MAX_LABEL_CHARACTERS], "reason": reason[:MAX_REASON_CHARACTERS]}
    return Maintenance.objects.get_or_create(lane=lane, host=host, ended_at=None, defaults=values)[1]


def _end(by: Actor, **target: Priority | str) -> bool:
    return bool(current().filter(**target).update(ended_at=Now(), ended_by=by.label[:MAX_LABEL_CHARACTERS]))


def current() -> QuerySet[Maintenance]:
    """Return the paused lanes and drained machines."""
    return Maintenance.objects.filter(ended_at=None)


def open_lanes() -> list[Priority]:
    """Return the lanes that are not paused, the best first. One query."""
    paused = set(current().filter(host="").values_list("lane", flat=True))
    return [lane for lane in Priority if lane not in paused]
