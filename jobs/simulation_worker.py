"""Simulation slots: threads of a Celery worker that each claim and run one job or shard at a time.

Celery starts and stops the slots, but sends them no messages. A Celery worker receives messages for all its threads
on one connection, and can take up to a second to notice that a thread is idle again. Here, each idle slot waits for
hints on its own connection.
"""

import logging
import socket
import threading
import time
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from celery.bootsteps import StartStopStep
from celery.signals import worker_shutting_down
from django.db import Error as DatabaseError
from django.db import close_old_connections, connection, connections

from jobs import counters, shutdown
from jobs.execution import attempt, helper
from jobs.execution.machine import machine
from jobs.execution.periodic_thread import PeriodicThread
from jobs.models import Job
from jobs.queueing import announcements, claims
from jobs.queueing.worker_processes import WorkerProcess, recover_dead_workers
from jobs.runs import runner
from jobs.simulator import layers
from simservice import memory
from simservice.celery import stop_failed_worker
from simservice.redis import worker_heartbeats
from simservice.redis.client import best_effort

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 2.0
INTERRUPT_SECONDS = 1.0
RETRY_SECONDS = 1.0
process = WorkerProcess()


class Slots(StartStopStep):
    """The slots of a Celery worker, as many as its concurrency."""

    def create(self, _worker: Any) -> None:
        """Recover the jobs of dead workers, and test the sandbox.

        Raises SystemExit if the sandbox does not work.
        """
        # Never close connections because of their age: a slot that wakes up tests its connection and reuses it.
        connections.settings["default"]["CONN_MAX_AGE"] = None
        process.register()
        logger.info("recovered %s jobs of dead workers", recover_dead_workers())
        try:
            self.layers = _probe_sandbox()
        except layers.SandboxUnavailable as error:
            raise SystemExit(str(error)) from error

    def start(self, worker: Any) -> None:
        """Start the heartbeat and the slots."""
        report = partial(_report, worker.hostname, slots=worker.concurrency, layers=self.layers)
        report()
        memory.settle()
        self.opened = ExitStack()
        self.opened.enter_context(
            PeriodicThread(report, process.refresh, seconds=HEARTBEAT_SECONDS, name="heartbeat")
        )
        names = [f"slot-{number}" for number in range(worker.concurrency)]
        self.threads = [threading.Thread(target=run_slot, name=name, daemon=True) for name in names]
        for thread in self.threads:
            thread.start()

    def close(self, _worker: Any) -> None:
        """Wait until the running jobs have ended or returned to the queue."""
        # While Celery stops, every new socket of the process gets a timeout of five seconds. Running jobs open
        # sockets that must wait longer.
        socket.setdefaulttimeout(None)
        shutdown.stop.request()
        for thread in self.threads:
            while thread.is_alive():
                best_effort(announcements.interrupt_waits, default=None)
                thread.join(INTERRUPT_SECONDS)
        self.opened.close()
        # Wake a slot of another worker, because a stopping slot may have taken a hint, and running jobs may have
        # returned to the queue.
        best_effort(announcements.send_hint, default=False)


@worker_shutting_down.connect
def request_stop(how: str, **_: Any) -> None:
    """Let the slots stop as soon as the worker receives the signal. A cold shutdown gives running jobs no time."""
    shutdown.stop.request(at_once=how == "Cold")


def _report(name: str, *, slots: int, layers: list[str]) -> None:
    """Record the heartbeat. A worker whose machine cannot run jobs reports no slots, and the reason."""
    slots = 0 if machine.problem else slots
    worker_heartbeats.report(name, slots=slots, layers=layers, problem=machine.problem)


def _probe_sandbox() -> list[str]:
    """Return the active layers of the sandbox. Raises SandboxUnavailable."""
    active = runner.probe_sandbox()
    if lacking := layers.missing(active):
        logger.warning("SANDBOX=auto: simulators run without %s", ", ".join(lacking))
    return active


def run_slot() -> None:
    """Repeat until the worker stops: run jobs and shards until none waits, then wait for a hint."""
    try:
        while not shutdown.stop.is_requested:
            _run_once()
        connection.close()
    except BaseException:
        logger.critical("this slot died, so its worker stops")
        stop_failed_worker()
        raise


def _run_once() -> None:
    """Run jobs until the queue is empty, then wait for a hint. After an error, wait a second."""
    try:
        close_old_connections()
        simulate()
        if machine.problem:
            # Leave hints to other workers.
            shutdown.stop.wait(machine.pause_seconds)
        else:
            announcements.wait_for_hint()
    except Exception:
        logger.exception("this slot failed and tries again")
        time.sleep(RETRY_SECONDS)
        with suppress(DatabaseError):
            connection.close()


def simulate() -> None:
    """Run jobs and shards until none waits, so that jobs submitted while all slots are busy need no hint.

    Claims nothing while the machine cannot run jobs.
    """
    was_woken = True
    while not shutdown.stop.is_requested and machine.may_claim():
        claimed = claims.claim(slot_name())
        if claimed is None:
            return
        if was_woken:
            announcements.pass_on()
            was_woken = False
        if isinstance(claimed, Job):
            counters.record_claim(claimed)
            attempt.execute(claimed)
        else:
            helper.execute(claimed)
        shutdown.stop.wait(machine.pause_seconds)


def slot_name() -> str:
    """Return the name under which this thread claims jobs: host, process, a random part and thread."""
    return f"{process.name}:{threading.get_native_id()}"
