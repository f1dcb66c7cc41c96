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
from jobs.models import Closure

HOST = re.compile(r"[A-Za-z0-9._-]{1,253}")
MAX_REASON_CHARACTERS = 200


class InvalidHost(Exception):
    """The text is not a host name."""


def begin(*, by: Actor, lane: Priority | None = None, host: str = "", reason: str = "") -> bool:
    """Pause a lane or drain a machine. Return False if it is paused or drained already. Raises InvalidHost.

    No worker needs to run on the machine.
    """
    if lane is None and not HOST.fullmatch(host):
        raise InvalidHost(host)
    values = {"began_by": by.label[:MAX_LABEL_CHARACTERS], "reason": reason[:MAX_REASON_CHARACTERS]}
    return Closure.objects.get_or_create(lane=lane, host=host, ended_at=None, defaults=values)[1]


def end(*, by: Actor, lane: Priority | None = None, host: str = "") -> bool:
    """Resume a lane or a machine. Return False if it is not paused or drained. Slots wake at the next sweep."""
    lasting = current().filter(lane=lane, host=host)
    return bool(lasting.update(ended_at=Now(), ended_by=by.label[:MAX_LABEL_CHARACTERS]))


def current() -> QuerySet[Closure]:
    """Return the paused lanes and drained machines."""
    return Closure.objects.filter(ended_at=None)


def open_lanes() -> list[Priority]:
    """Return the lanes that are not paused, the best first. One query."""
    paused = set(current().filter(host="").values_list("lane", flat=True))
    return [lane for lane in Priority if lane not in paused]
