"""Simulation slots: the threads of a Celery worker that consumes lanes. Each runs one job or shard at a time.

A message wakes an idle slot. The slot then claims work from the database until none waits in the worker's lanes.
"""

import logging
import os
import socket
import threading
from contextlib import ExitStack
from functools import partial
from typing import Any

from celery.bootsteps import StartStopStep
from celery.concurrency.thread import TaskPool
from celery.worker import state
from celery.worker.request import Request
from django.db import Error as DatabaseError
from django.db import connection

from jobs.enums import Priority
from jobs.execution import attempt, helper, runner
from jobs.execution.machine import DRAINED, machine
from jobs.execution.periodic_thread import PeriodicThread
from jobs.execution.worker_processes import WorkerProcess, recover_dead_workers
from jobs.lifecycle import counters
from jobs.models import Job
from jobs.queue import announcements, claims
from sandbox import layers
from simservice import shutdown, worker_heartbeats
from simservice.celery import app, running
from simservice.redis.client import best_effort

logger = logging.getLogger(__name__)

process = WorkerProcess()


class Slots(StartStopStep):
    """The slots of a Celery worker, as many as its concurrency."""

    # Whether this process has slots. Only a worker that consumes a lane from its start has them.
    are_open = False

    def create(self, worker: Any) -> None:
        """Recover the jobs of dead workers, and test the sandbox.

        Raises SystemExit if the sandbox does not work, or if the slots are not threads: a job in another process
        would not notice that the worker stops, and a job in the main thread would block it.
        """
        if not issubclass(worker.pool_cls, TaskPool):
            raise SystemExit("A worker that consumes lanes needs the option --pool threads.")
        self.opened = ExitStack()
        process.register()
        logger.info("recovered %s jobs of dead workers", recover_dead_workers())
        try:
            self.layers = _probe_sandbox()
        except layers.SandboxUnavailable as error:
            raise SystemExit(str(error)) from error

    def start(self, worker: Any) -> None:
        """Start the heartbeat, and wake slots for jobs that are already waiting."""
        report = partial(_report, slots=worker.concurrency, layers=self.layers)
        report()
        self.opened.enter_context(
            PeriodicThread(report, process.refresh, seconds=worker_heartbeats.HEARTBEAT_SECONDS, name="heartbeat")
        )
        best_effort(announcements.replenish, default=0)
        # The main thread needs the database no more.
        connection.close()
        Slots.are_open = True

    def close(self, _worker: Any) -> None:
        """Let the running jobs end or return to the queue. Celery then waits for the slots."""
        # While Celery stops, every new socket of the process gets a timeout of five seconds. Running jobs open
        # sockets that must wait longer.
        socket.setdefaulttimeout(None)
        # A cold shutdown gives running jobs no time.
        shutdown.stop.request(at_once=state.should_terminate is not None)
        self.opened.close()


class SlotRequest(Request):
    """A received message that occupies a slot."""

    def cancel(self, *_: Any, **__: Any) -> None:
        """Return the running jobs to the queue at once, because Celery cannot kill a thread.

        Celery's handlers of SIGQUIT and of a second SIGINT call this, then wait for the slots.
        """
        shutdown.stop.request(at_once=True)


def _report(*, slots: int, layers: list[str]) -> None:
    """Record the heartbeat, and learn whether the machine is drained.

    A worker whose machine cannot run jobs, or is drained, reports no slots, and the reason.
    """
    host = socket.gethostname()
    problem = DRAINED if shutdown.stop.is_drained else machine.problem
    slots = 0 if problem else slots
    name = f"{worker_heartbeats.SIMULATION}{host}-{os.getpid()}"
    drained = worker_heartbeats.report(name, slots=slots, layers=layers, problem=problem)
    if drained is not None:
        shutdown.stop.set_drained(host in drained)


def _probe_sandbox() -> list[str]:
    """Return the active layers of the sandbox. Raises SandboxUnavailable."""
    active = runner.probe_sandbox()
    if lacking := layers.missing(active):
        logger.warning("SANDBOX=auto: simulators run without %s", ", ".join(lacking))
    return active


def simulate() -> None:
    """Run jobs and shards until none waits, so that jobs submitted while all slots are busy need no message.

    While this machine cannot run jobs, or is drained, the slot waits and leaves them to other workers.
    """
    try:
        while not shutdown.stop.is_requested:
            if not machine.may_claim():
                announcements.pass_on()
            elif not _run_next():
                return
            shutdown.stop.wait(machine.pause_seconds)
        # The slot may have returned its job to the queue, or received a message and claimed nothing.
        announcements.pass_on()
    except DatabaseError:
        logger.exception("a slot stopped: the database failed; the sweep wakes slots for waiting jobs")


def _run_next() -> bool:
    """Claim and run the best job or shard. Return False if none waits in the lanes of this worker."""
    slot = slot_name()
    claimed = claims.claim_work(slot, lanes=lanes())
    if claimed is None:
        return False
    try:
        if isinstance(claimed, Job):
            running[slot] = {"job": str(claimed.pk), "attempt": claimed.attempt}
            counters.record_claim(claimed)
            attempt.execute(claimed)
        else:
            running[slot] = {"stage": str(claimed.stage_id), "shard": claimed.number}
            helper.execute(claimed)
    finally:
        running.pop(slot, None)
    return True


def lanes() -> list[Priority]:
    """Return the lanes that this worker currently consumes, the best first."""
    consumed = app.amqp.queues.consume_from
    return [lane for lane in Priority if announcements.queue_of(lane) in consumed]


def slot_name() -> str:
    """Return the name under which this thread claims jobs: host, process, a random part and thread."""
    return f"{process.name}:{threading.get_native_id()}"
