"""Processes of a fault run: workers, sweepers and submitters that faults hit at chosen points.

Each is forked from a prepared process and exchanges messages with `FaultRun` through a pipe. It receives a fault
and a point, reports when it reaches the point, and is then killed, paused or disconnected.
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
from datetime import timedelta
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import OperationalError, close_old_connections, connection, connections

from simservice import shutdown
from simservice.celery import app
from simservice.redis.client import redis
from tests.faults.requests import ShardedForm

logger = logging.getLogger(__name__)

forking = multiprocessing.get_context("forkserver")
forking.set_forkserver_preload(["tests.faults.preload"])

LEASE_SECONDS = 1.5
MIN_ALLOWANCE_MS = 400
HEARTBEAT_SECONDS = 0.4
# A process that pauses inside a transaction loses it, and its locks, after this time.
IDLE_IN_TRANSACTION_SECONDS = 2.0
DISCONNECTED_SECONDS = 10.0
SNAPSHOT_MARK = "all ended before "
# All transactions of this database with lower numbers have ended. The `xmin` of a snapshot is lower while a
# transaction of another database runs, such as that of a parallel test. The activity is read after the snapshot.
ALL_ENDED_BEFORE = """
    SELECT least(pg_snapshot_xmax(pg_current_snapshot())::text::bigint, min(backend_xid::text::bigint))
    FROM pg_stat_activity WHERE datname = current_database()
"""
# How long a fault may wait at a point that the process does not reach.
ARMED_SECONDS = 3.0


@dataclass(frozen=True, kw_only=True)
class WorkerSpec:
    """Role, connections and settings of one process of a fault run."""

    role: str
    name: str
    database: str
    redis: str
    log: Path
    slots: int = 1
    seed: int = 0
    variant: str = ""
    # The API keys with which a submitter sends its submissions.
    keys: tuple[int, ...] = ()
    form: ShardedForm | None = None
    settings: dict[str, float] = field(default_factory=dict)


class FaultInjector:
    """Faults armed at points of this process."""

    def __init__(self, link: Connection) -> None:
        self.link = link
        self.send_lock = threading.Lock()
        self.armed: dict[str, str] = {}
        self.resume = threading.Event()

    def send(self, *message: Any) -> None:
        with self.send_lock:
            self.link.send(message)

    def reached(self, point: str) -> str | None:
        """Inject the fault armed at a point, once. Return it, or None if there is none."""
        fault = self.armed.pop(point, None)
        if fault is None:
            return None
        self.resume.clear()
        self.send("reached", point, fault)
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault == "pause":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif fault == "stop":
            shutdown.stop.request(at_once=True)
        elif fault == "answer":
            connection.close()
            raise OperationalError("the response was lost")
        elif fault in ("database", "redis"):
            self.resume.wait(DISCONNECTED_SECONDS)
        return fault


def run_worker(spec: WorkerSpec, link: Connection) -> None:
    """Run a worker, sweeper or submitter until it receives "stop"."""
    configure(spec)
    from tests.faults.points import BY_ROLE
    from tests.faults.variants import VARIANTS

    record_snapshots_in_claims()
    injector, stopped = FaultInjector(link), threading.Event()
    if spec.variant:
        VARIANTS[spec.variant]()
    for point, arm in BY_ROLE[spec.role].items():
        arm(partial(injector.reached, point))
    inbox: list[int] = []
    step = {"worker": simulate, "sweeper": sweep, "submitter": partial(submit, spec, injector, inbox)}[spec.role]
    threads = [threading.Thread(target=repeat, args=(step, stopped)) for _ in range(spec.slots)]
    for thread in threads:
        thread.start()
    receive(injector, inbox, stopped)
    for thread in threads:
        thread.join()


def use_redis(url: str) -> None:
    """Use the fault run's own Redis for credentials and announcements in this process."""
    settings.REDIS_URL = url
    app.conf.update(broker_url=url)
    redis.cache_clear()


def configure(spec: WorkerSpec) -> None:
    """Apply the name, database, log and settings of a process."""
    descriptor = os.open(spec.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, sys.stderr.fileno())
    database = connections.settings["default"]
    database["NAME"] = spec.database
    database["OPTIONS"]["application_name"] = f"{spec.name}:{os.getpid()}"
    idle_ms = IDLE_IN_TRANSACTION_SECONDS * 1000
    database["OPTIONS"]["options"] = f"-c idle_in_transaction_session_timeout={idle_ms:.0f}ms -c lock_timeout=10s"
    for name, value in spec.settings.items():
        setattr(settings, name, value)
    use_redis(spec.redis)
    from jobs.execution import time_limits
    from jobs.submission import accept

    # Slices short enough that fast jobs need a second one.
    vars(accept)["SLICE_SECONDS"] = vars(time_limits)["SLICE_SECONDS"] = 3
    vars(time_limits)["MIN_AHEAD_SECONDS"], time_limits.RETRY_SECONDS = 2, 0.5
    cut_into_short_shards()


def cut_into_short_shards() -> None:
    """Let short jobs run in shards, and shorten the times of shards to suit the short leases of a run."""
    from jobs.execution import conductor, shard_plan, simulator_run, time_limits
    from jobs.lifecycle import shard_moves

    shard_plan.MIN_JOB_SECONDS, shard_plan.MIN_PROFILESETS_OF_UNKNOWN_TIME = 0, 2
    shard_plan.MIN_SHARD_SECONDS = 0.02
    conductor.OBSERVE_SECONDS, conductor.POLL_SECONDS = 0.15, 0.03
    conductor.ALLOWANCE_MS, conductor.MIN_ALLOWANCE_MS = round(LEASE_SECONDS * 1000), MIN_ALLOWANCE_MS
    time_limits.SHORT_SECONDS, simulator_run.UPDATE_SECONDS = 0.3, 0.1
    # Longer than a pause, after which a conductor still removes the files of the job that it ended
    shard_moves.VOID_KEPT = timedelta(seconds=4 * LEASE_SECONDS)


def record_snapshots_in_claims() -> None:
    """Record in each claim's event which transactions had ended before the claim looked for the best job."""
    from jobs.execution import simulation_worker

    slot_name = simulation_worker.slot_name

    def with_snapshot() -> str:
        with connection.cursor() as cursor:
            cursor.execute(ALL_ENDED_BEFORE)
            (ended_before,) = cursor.fetchone()
        return f"{slot_name()} {SNAPSHOT_MARK}{ended_before}"

    simulation_worker.slot_name = with_snapshot


def receive(injector: FaultInjector, inbox: list[int], stopped: threading.Event) -> None:
    """Handle messages until "stop"; exit if the fault run is gone."""
    while not stopped.is_set():
        try:
            kind, *rest = injector.link.recv()
        except (EOFError, OSError):
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "arm":
            injector.armed = {rest[0]: rest[1]}
        elif kind == "resume":
            injector.resume.set()
        elif kind == "submit":
            inbox.append(rest[0])
        elif kind == "shut down":
            shutdown.stop.request(at_once=True)
            stopped.set()
        else:
            stopped.set()


def repeat(step: Callable[[], None], stopped: threading.Event) -> None:
    """Repeat a step as Celery runs tasks: log exceptions and drop dead connections."""
    while not stopped.is_set():
        close_old_connections()
        try:
            step()
        except Exception:
            logger.exception("A step failed")
        stopped.wait(0.1)
    connections.close_all()


def simulate() -> None:
    from jobs.execution import simulation_worker

    simulation_worker.simulate()


def sweep() -> None:
    from jobs import tasks

    tasks.sweep()


def submit(spec: WorkerSpec, injector: FaultInjector, inbox: list[int]) -> None:
    """Send the requested submissions and report the result of each."""
    from clients.models import ApiKey
    from jobs.errors import JobsError
    from jobs.submission.accept import Accepted
    from jobs.submission.accept import submit as submit_job
    from jobs.submission.idempotency import ByIdempotencyKey
    from jobs.submission.validation import Sender
    from tests.faults.requests import make_request

    keys = list(ApiKey.objects.filter(pk__in=spec.keys).order_by("id"))
    while inbox:
        number = inbox.pop(0)
        key, request = keys[number % len(keys)], make_request(spec.seed, number, form=spec.form)
        keyed = ByIdempotencyKey(key, str(number), request, render=lambda accepted: str(accepted.job.pk))
        try:
            outcome = submit_job(request, sender=Sender(key.client, key), once=keyed)
        except JobsError as error:
            injector.send("rejected", number, type(error).__name__)
        except Exception:
            injector.send("rejected", number, "an error")
            raise
        else:
            job_id = outcome.job.pk if isinstance(outcome, Accepted) else int(outcome.response)
            injector.send("accepted", number, job_id)


class Worker:
    """A process of a fault run, as the run sees it."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        # Monotonic time at which the last fault was armed; 0 if it was injected.
        self.armed_at = 0.0
        # Wall-clock time at which a paused process continues.
        self.resumes_at: float | None = None
        # Whether a fault ended it, or asked it to stop.
        self.was_ended = False
        self.link, worker_end = forking.Pipe()
        self.process = forking.Process(target=run_worker, args=(spec, worker_end), name=spec.name)
        self.process.start()
        worker_end.close()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive()

    def signal(self, number: int) -> None:
        """Send a signal if the process is alive."""
        if self.process.pid is not None and self.is_alive:
            os.kill(self.process.pid, number)

    def send(self, *message: Any) -> None:
        """Send a message; a dead process ignores it."""
        try:
            self.link.send(message)
        except OSError:
            logger.info("%s is dead", self.spec.name)

    def can_be_armed(self, now: float) -> bool:
        """Return whether it is running and its last fault was injected or has waited long enough."""
        return self.is_alive and self.resumes_at is None and now - self.armed_at > ARMED_SECONDS

    def arm(self, point: str, fault: str) -> None:
        """Arm a fault at a point."""
        self.armed_at = time.monotonic()
        self.send("arm", point, fault)
