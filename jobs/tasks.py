"""Celery's doors into the jobs: one task that works off the queue, one that sweeps."""

import logging
import os
import socket
import threading
from typing import Any

from celery.signals import worker_init, worker_shutting_down
from django.db import Error as DatabaseError
from redis.exceptions import RedisError

from jobs import retention, shutdown
from jobs.builds import registry
from jobs.execution import attempt
from jobs.queueing import claims
from jobs.queueing import sweep as sweeping
from jobs.runs import directories, runner
from jobs.simulator import layers
from jobs.simulator.layers import SandboxUnavailable
from simservice.celery import app
from simservice.redis import worker_heartbeats

logger = logging.getLogger(__name__)


@worker_init.connect
def prepare(sender: Any, **_: Any) -> None:
    """Refuse to simulate if the sandbox that the deployment requires does not work.

    Every kind of worker removes leftovers of killed runs, because their own worker may never start again.
    Celery logs and ignores every exception here except an exit.
    """
    directories.sweep_leftovers()
    if not sender.hostname.startswith(worker_heartbeats.SIMULATION):
        return
    try:
        app.conf.sandbox_layers = runner.probe_sandbox()
    except SandboxUnavailable as error:
        raise SystemExit(str(error)) from error
    lacking = layers.missing(app.conf.sandbox_layers)
    if lacking:
        logger.warning("SANDBOX=auto: simulators run without %s", ", ".join(lacking))


@worker_shutting_down.connect
def stop_claiming(**_: Any) -> None:
    """Take no further job once the worker was asked to stop, and give running ones back in time."""
    shutdown.stop.request()


def slot_name() -> str:
    """Name the one who claims: host, process and thread."""
    return f"{socket.gethostname()}:{os.getpid()}:{threading.get_native_id()}"


@app.task(name="jobs.tasks.simulate")
def simulate() -> None:
    """Work off the queue until it is empty, so that a hint held by a busy worker strands nobody."""
    while not shutdown.stop.is_requested:
        job = claims.claim(slot_name())
        if job is None:
            return
        attempt.execute(job)


@app.task(name="jobs.tasks.sweep")
def sweep() -> None:
    """Do one round of the sweep."""
    try:
        done = sweeping.sweep()
    except DatabaseError:
        logger.exception("the sweep failed and will be tried again")
        return
    if any(done.values()):
        logger.info("swept: %s", ", ".join(f"{name} {count}" for name, count in done.items() if count))


@app.task(name="jobs.tasks.forget_credentials")
def forget_credentials() -> None:
    """Forget game credentials that nobody needs any more."""
    try:
        forgotten = sweeping.forget_credentials()
    except (DatabaseError, RedisError):
        logger.warning("credentials are looked through later: the database or Redis does not answer")
        return
    if forgotten:
        logger.info("the credentials of %s jobs forgotten", forgotten)


@app.task(name="jobs.tasks.forget_builds")
def forget_builds() -> None:
    """Forget builds past their retention."""
    forgotten = registry.remove_old()
    if forgotten:
        logger.info("%s old builds forgotten", forgotten)


@app.task(name="jobs.tasks.clear_expired")
def clear_expired() -> None:
    """Remove what jobs left behind whose retention is over."""
    try:
        cleared = retention.clear_expired()
    except DatabaseError:
        logger.exception("expired jobs are cleared later")
        return
    if cleared:
        logger.info("the files of %s expired jobs removed", cleared)
