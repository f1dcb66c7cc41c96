"""The processes of a run of the fault suite: workers, sweepers and submitters that faults hit at chosen points.

Each is forked from a prepared process and talks with the orchestrator through a pipe: it is told which fault to
wait for where, says when it got there, and lets itself be killed, stopped or cut off.
"""

import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import close_old_connections, connection, connections

from simservice.celery import app
from simservice.redis.client import redis

logger = logging.getLogger(__name__)

forking = multiprocessing.get_context("forkserver")
forking.set_forkserver_preload(["tests.faults.preload"])

LEASE_SECONDS = 1.5
HEARTBEAT_SECONDS = 0.4
# Whoever stands still within a transaction loses it, and its locks, after so long.
IDLE_SECONDS = 2.0
CUT_OFF_SECONDS = 10.0
SEEN = "saw all before "
# How long a fault may wait at a point that nobody passes.
PATIENCE_SECONDS = 3.0


@dataclass(frozen=True, kw_only=True)
class Part:
    """What an actor is told when it starts; `chosen` are the settings it works under."""

    role: str
    name: str
    database: str
    redis: str
    log: Path
    slots: int = 1
    seed: int = 0
    variant: str = ""
    chosen: dict[str, float] = field(default_factory=dict)


class Faults:
    """Which fault waits at which point of this process."""

    def __init__(self, link: Connection) -> None:
        self.link = link
        self.sending = threading.Lock()
        self.armed: dict[str, str] = {}
        self.go_on = threading.Event()

    def tell(self, *message: Any) -> None:
        with self.sending:
            self.link.send(message)

    def reached(self, point: str) -> None:
        """Suffer the fault that waits here, once."""
        fault = self.armed.pop(point, None)
        if fault is None:
            return
        self.go_on.clear()
        self.tell("reached", point, fault)
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault == "pause":
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            self.go_on.wait(CUT_OFF_SECONDS)


def act(part: Part, link: Connection) -> None:
    """Be an actor until told to stop."""
    prepare(part)
    from tests.faults.points import BY_ROLE
    from tests.faults.variants import VARIANTS

    tell_what_was_seen()
    faults, done = Faults(link), threading.Event()
    if part.variant:
        VARIANTS[part.variant]()
    for point, arm in BY_ROLE[part.role].items():
        arm(partial(faults.reached, point))
    inbox: list[int] = []
    duty = {"worker": work, "sweeper": sweep, "submitter": partial(submit, part, faults, inbox)}[part.role]
    threads = [threading.Thread(target=repeat, args=(duty, done)) for _ in range(part.slots)]
    for thread in threads:
        thread.start()
    listen(faults, inbox, done)
    for thread in threads:
        thread.join()


def use_redis(url: str) -> None:
    """Let this process's hints, credentials and announcements go to a Redis of the suite's own."""
    settings.REDIS_URL = url
    app.conf.update(broker_url=url)
    redis.cache_clear()


def prepare(part: Part) -> None:
    """Take this actor's name, database, log and settings."""
    descriptor = os.open(part.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, sys.stderr.fileno())
    database = connections.settings["default"]
    database["NAME"] = part.database
    database["OPTIONS"]["application_name"] = part.name
    database["OPTIONS"]["options"] = (
        f"-c idle_in_transaction_session_timeout={IDLE_SECONDS * 1000:.0f}ms -c lock_timeout=10s"
    )
    for name, value in part.chosen.items():
        setattr(settings, name, value)
    use_redis(part.redis)
    from jobs.execution import budget
    from jobs.submission import accept

    # Slices short enough for fast jobs to need a second one.
    vars(accept)["SLICE_SECONDS"] = vars(budget)["SLICE_SECONDS"] = 3
    budget.MIN_AHEAD_SECONDS = 2


def tell_what_was_seen() -> None:
    """Let each claim's event tell which transactions had ended before the claim looked for the best job."""
    from jobs import tasks

    slot_name = tasks.slot_name

    def with_snapshot() -> str:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text")
            (ended_before,) = cursor.fetchone()
        return f"{slot_name()} {SEEN}{ended_before}"

    tasks.slot_name = with_snapshot


def listen(faults: Faults, inbox: list[int], done: threading.Event) -> None:
    """Take orders until the last one, or until nobody gives any."""
    while not done.is_set():
        try:
            order, *rest = faults.link.recv()
        except (EOFError, OSError):
            os.kill(os.getpid(), signal.SIGKILL)
        if order == "arm":
            faults.armed = {rest[0]: rest[1]}
        elif order == "go on":
            faults.go_on.set()
        elif order == "submit":
            inbox.append(rest[0])
        else:
            done.set()


def repeat(duty: Callable[[], None], done: threading.Event) -> None:
    """Do a duty again and again, as Celery does tasks: what one raises is logged, dead connections are dropped."""
    while not done.is_set():
        close_old_connections()
        try:
            duty()
        except Exception:
            logger.exception("a duty failed")
        done.wait(0.1)
    connections.close_all()


def work() -> None:
    from jobs import tasks

    tasks.simulate()


def sweep() -> None:
    from jobs import tasks

    tasks.sweep()


def submit(part: Part, faults: Faults, inbox: list[int]) -> None:
    """Send the submissions that were ordered, and tell how each was answered."""
    from clients.models import ApiKey
    from jobs.errors import JobsError
    from jobs.submission.accept import Accepted
    from jobs.submission.accept import submit as submit_job
    from jobs.submission.idempotency import KeyedRequest
    from jobs.submission.validation import Sender
    from tests.faults.requests import make_request

    keys = list(ApiKey.objects.order_by("id"))
    while inbox:
        number = inbox.pop(0)
        key, request = keys[number % len(keys)], make_request(part.seed, number)
        keyed = KeyedRequest(key, str(number), request, render=lambda accepted: str(accepted.job.pk))
        try:
            outcome = submit_job(request, sender=Sender(key.client, key), deduplication=keyed)
        except JobsError as error:
            faults.tell("refused", number, type(error).__name__)
        except Exception:
            faults.tell("refused", number, "an error")
            raise
        else:
            job_id = outcome.job.pk if isinstance(outcome, Accepted) else int(outcome.response)
            faults.tell("accepted", number, job_id)


class Actor:
    """One of the processes, as the orchestrator sees it."""

    def __init__(self, part: Part) -> None:
        self.part = part
        # By the monotonic clock; the last fault is over when it is long ago.
        self.armed_at = 0.0
        # By the wall clock: when a stopped process goes on.
        self.goes_on_at: float | None = None
        self.must_die = False
        self.orders: list[int] = []
        self.link, theirs = forking.Pipe()
        self.process = forking.Process(target=act, args=(part, theirs), name=part.name)
        self.process.start()
        theirs.close()

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive()

    def signal(self, number: int) -> None:
        """Send a signal, if it still lives."""
        if self.process.pid is not None and self.is_alive:
            os.kill(self.process.pid, number)

    def order(self, *words: Any) -> None:
        """Give an order; a dead actor hears none."""
        try:
            self.link.send(words)
        except OSError:
            logger.info("%s is dead", self.part.name)

    def may_be_armed(self, now: float) -> bool:
        """Tell whether it lives, and has no fault before it but one at a point that it does not pass."""
        return self.is_alive and self.goes_on_at is None and now - self.armed_at > PATIENCE_SECONDS

    def arm(self, point: str, fault: str) -> None:
        """Let a fault wait at a point."""
        self.armed_at = time.monotonic()
        self.order("arm", point, fault)
