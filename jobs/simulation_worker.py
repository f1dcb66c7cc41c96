"""The simulation worker: a process with slots, each a thread that claims and runs one job at a time.

It does not use Celery. A Celery worker receives messages for all slots on one connection, and can take up to a
second to notice that a slot is idle again. Here, each idle slot waits for hints on its own connection.
"""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection, connections

from jobs import shutdown
from jobs.execution import attempt
from jobs.execution.periodic_thread import PeriodicThread
from jobs.queueing import announcements, claims
from jobs.queueing.worker_processes import WorkerProcess, recover_dead_workers
from jobs.runs import directories, runner
from jobs.simulator import layers
from simservice import database
from simservice.celery import app
from simservice.redis import worker_heartbeats
from simservice.redis.client import best_effort

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 2.0
INTERRUPT_SECONDS = 1.0
RETRY_SECONDS = 1.0
process = WorkerProcess()


def run(slots: int) -> None:
    """Run jobs until SIGTERM or SIGINT, then wait until the running ones have ended or returned to the queue.

    Raises SandboxUnavailable if the required sandbox does not work.
    """
    # Unlike an event, a queue can be used safely by a signal handler.
    stops: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stops.put(number))
    prepare()
    report = _heartbeat(slots, _probe_sandbox())
    report()
    with PeriodicThread(report, seconds=HEARTBEAT_SECONDS, name="heartbeat"):
        threads = [threading.Thread(target=run_slot, name=f"slot-{number}", daemon=True) for number in range(slots)]
        for thread in threads:
            thread.start()
        stops.get()
        shutdown.stop.request()
        _wait_for_end(threads)
    # Send a hint, because a stopping slot may have taken one, and running jobs may have returned to the queue.
    best_effort(announcements.send_hint, default=False)


def _wait_for_end(slots: Sequence[threading.Thread]) -> None:
    """Wait until all slots of a stopping worker have ended."""
    for slot in slots:
        while slot.is_alive():
            best_effort(announcements.interrupt_waits, default=None)
            slot.join(INTERRUPT_SECONDS)


def prepare() -> None:
    """Recover the jobs of dead workers, and remove leftovers of killed runs."""
    configure_database()
    # Celery creates its tasks on first use, which is not thread-safe.
    app.finalize(auto=True)
    process.register()
    try:
        recovered = recover_dead_workers()
    except DatabaseError:
        logger.exception("jobs of dead workers wait until their leases expire: the database does not respond")
        connection.close()
    else:
        logger.info("recovered %s jobs of dead workers", recovered)
    directories.sweep_leftovers()


def configure_database() -> None:
    """Limit this process's statements, and keep its connections. Call before the first connection."""
    database.limit_statements(database.WORKER_STATEMENT_SECONDS)
    # A slot that wakes up reuses its connection, and tests it before the first query.
    connections.settings["default"]["CONN_MAX_AGE"] = None


def _probe_sandbox() -> list[str]:
    """Return the active layers of the sandbox. Raises SandboxUnavailable."""
    active = runner.probe_sandbox()
    if lacking := layers.missing(active):
        logger.warning("SANDBOX=auto: simulators run without %s", ", ".join(lacking))
    return active


def _heartbeat(slots: int, active: list[str]) -> partial[None]:
    """Return the function that records that this worker is alive."""
    name = f"{worker_heartbeats.SIMULATION}{socket.gethostname()}-{os.getpid()}"
    return partial(worker_heartbeats.report, name, slots=slots, layers=active)


def run_slot() -> None:
    """Repeat until the worker stops: run jobs until the queue is empty, then wait for a hint."""
    while not shutdown.stop.is_requested:
        try:
            close_old_connections()
            simulate()
            announcements.wait_for_hint()
        except Exception:
            logger.exception("this slot failed and tries again")
            time.sleep(RETRY_SECONDS)
            with suppress(DatabaseError):
                connection.close()
    connection.close()


def simulate() -> None:
    """Run jobs until the queue is empty, so that jobs submitted while all slots are busy need no hint."""
    was_woken = True
    while not shutdown.stop.is_requested:
        job = claims.claim(slot_name())
        if job is None:
            return
        if was_woken:
            announcements.pass_on()
            was_woken = False
        attempt.execute(job)


def slot_name() -> str:
    """Return the name under which this thread claims jobs: host, process, a random part and thread."""
    return f"{process.name}:{threading.get_native_id()}"
