"""Celery tasks of jobs, and the start and stop of workers."""

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
from webhooks import tasks as webhook_tasks

logger = logging.getLogger(__name__)


@worker_init.connect
def prepare(sender: Any, **_: Any) -> None:
    """Remove leftovers of killed runs, and stop a simulation worker if the required sandbox does not work.

    Workers of every kind remove leftovers, because the worker of a killed run may never start again. Celery logs
    and ignores all exceptions here except SystemExit.
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
    """Stop claiming jobs when the worker is asked to stop. Running jobs are requeued after a while."""
    shutdown.stop.request()


def slot_name() -> str:
    """Return the name under which this thread claims jobs: host, process and thread."""
    return f"{socket.gethostname()}:{os.getpid()}:{threading.get_native_id()}"


@app.task(name="jobs.tasks.simulate")
def simulate() -> None:
    """Run jobs until none waits, so that no job depends on a hint that a busy worker has prefetched."""
    while not shutdown.stop.is_requested:
        job = claims.claim(slot_name())
        if job is None:
            return
        attempt.execute(job)


@app.task(name="jobs.tasks.sweep")
def sweep() -> None:
    """Run one sweep: webhook events first, because a sweep of many jobs takes longer."""
    webhook_tasks.announce_due()
    try:
        done = sweeping.sweep()
    except DatabaseError:
        logger.exception("the sweep failed and will be retried")
        return
    if any(done.values()):
        logger.info("swept: %s", ", ".join(f"{name} {count}" for name, count in done.items() if count))


@app.task(name="jobs.tasks.forget_credentials")
def forget_credentials() -> None:
    """Delete the game credentials of ended jobs."""
    try:
        deleted = sweeping.forget_credentials()
    except (DatabaseError, RedisError):
        logger.warning("unused credentials not deleted, will be retried: the database or Redis does not respond")
        return
    if deleted:
        logger.info("deleted the credentials of %s ended jobs", deleted)


@app.task(name="jobs.tasks.forget_builds")
def forget_builds() -> None:
    """Delete builds whose retention has ended."""
    deleted = registry.remove_old()
    if deleted:
        logger.info("deleted %s old builds", deleted)


@app.task(name="jobs.tasks.clear_expired")
def clear_expired() -> None:
    """Remove the files and profiles of expired jobs."""
    try:
        cleared = retention.clear_expired()
    except DatabaseError:
        logger.exception("clearing expired jobs failed and will be retried")
        return
    if cleared:
        logger.info("removed the files of %s expired jobs", cleared)
