"""Celery tasks of jobs, and the start of workers."""

import logging
from typing import Any

from celery.signals import worker_init
from django.db import Error as DatabaseError
from redis.exceptions import RedisError

from jobs import registry
from jobs.artifacts import retention
from jobs.execution import directories, simulation_worker
from jobs.queue import sweep as sweeping
from simservice import clocks
from simservice.celery import app, required
from webhooks import tasks as webhook_tasks

logger = logging.getLogger(__name__)


@worker_init.connect
@required
def sweep_leftovers_on_start(**_: Any) -> None:
    """Remove leftovers of killed runs, because the worker of a killed run may never start again."""
    directories.sweep_leftovers()


@worker_init.connect
@required
def add_slots(sender: Any, **_: Any) -> None:
    """Add the bootstep of simulation slots to a worker that consumes a lane."""
    if simulation_worker.lanes():
        sender.app.steps["worker"].add(simulation_worker.Slots)


@app.task(name="jobs.tasks.simulate", Request="jobs.execution.simulation_worker:SlotRequest")
def simulate() -> None:
    """Run waiting jobs and shards in a slot of this worker. A worker without slots leaves them to others."""
    if simulation_worker.Slots.are_open:
        simulation_worker.simulate()
    elif simulation_worker.lanes():
        logger.error("this worker started without a lane, so it runs no jobs: cancel its consumers of lanes")


@app.task(name="jobs.tasks.sweep")
def sweep() -> None:
    """Run one sweep: webhook events first, because a sweep of many jobs takes longer."""
    webhook_tasks.announce_due()
    try:
        done = sweeping.sweep()
        if done:
            done["without_build"] = sweeping.end_waits_without_build()
    except DatabaseError:
        logger.exception("the sweep failed and will be retried")
        return
    if any(done.values()):
        logger.info("swept: %s", ", ".join(f"{name} {count}" for name, count in done.items() if count))


@app.task(name="jobs.tasks.forget_credentials")
def forget_credentials() -> None:
    """Delete the game credentials of ended jobs."""
    try:
        if not clocks.is_right():
            return
        deleted = sweeping.forget_credentials()
    except (DatabaseError, RedisError):
        logger.warning("unused credentials not deleted, will be retried: the database or Redis does not respond")
        return
    if deleted:
        logger.info("deleted the credentials of %s ended jobs", deleted)


@app.task(name="jobs.tasks.forget_builds")
def forget_builds() -> None:
    """Withdraw builds whose retention has ended."""
    if not clocks.is_right():
        return
    withdrawn = registry.withdraw_old()
    if withdrawn:
        logger.info("withdrew %s old builds", withdrawn)


@app.task(name="jobs.tasks.clear_expired")
def clear_expired() -> None:
    """Remove the files and profiles of expired jobs."""
    try:
        if not clocks.is_right():
            return
        cleared = retention.clear_expired()
    except DatabaseError:
        logger.exception("clearing expired jobs failed and will be retried")
        return
    if cleared:
        logger.info("removed the files of %s expired jobs", cleared)
