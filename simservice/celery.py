"""The Celery application: its queues, its messages, the command `inspect slots`, and the setup of its workers.

Messages in `sim.high`, `sim.standard` and `sim.background` wake simulation slots, those in `webhooks` start
deliveries, and `control` contains the periodic tasks. Messages can be lost or repeated without harm, so they are
not acknowledged late, retried or stored.
"""

import logging
import os
import socket
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from celery import Celery
from celery.signals import setup_logging, task_postrun, task_prerun, worker_init, worker_ready
from celery.worker import state
from celery.worker.control import inspect_command
from celery.worker.request import Request
from django.conf import settings
from django.db import close_old_connections
from kombu import Exchange, Queue
from kombu.asynchronous import Hub
from kombu.exceptions import OperationalError
from kombu.transport.virtual import Channel
from redis.exceptions import ConnectionError as RedisConnectionError

logger = logging.getLogger(__name__)

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "simservice.settings")
# `manage.py doctor` runs Django's checks, which load all pages and the admin.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

QUEUES = ("sim.high", "sim.standard", "sim.background", "webhooks", "control")
# How soon a worker checks again whether an ended task still occupies its slot
RETRY_SECONDS = 0.001

# A message that cannot be read stops its worker, and must not return to the queue and stop the next one.
Channel.do_restore = False


def _configuration() -> dict[str, Any]:
    """Return Celery's settings. Celery shows all settings that it has, so it gets none of Django's passwords."""
    names = [name for name in dir(settings) if name.startswith("CELERY_")]
    return {name.removeprefix("CELERY_").lower(): getattr(settings, name) for name in names}


app = Celery("simservice")
# Called when Celery needs the first setting
app.add_defaults(_configuration)
# The anonymous exchange stores no bindings in Redis, so routing still works after Redis was emptied.
app.conf.task_queues = [Queue(name, Exchange(""), routing_key=name) for name in QUEUES]
# The threads of a worker keep their database connections. Celery's integration with Django reads this name.
app.conf["CELERY_DB_REUSE_MAX"] = sys.maxsize
app.autodiscover_tasks()
# What each busy simulation slot of this process runs, by the name of the slot
running: dict[str, dict[str, Any]] = {}


@inspect_command()
def slots(_state: Any) -> dict[str, dict[str, Any]]:
    """List what the simulation slots of a worker run: `celery --app simservice inspect slots`."""
    return dict(running)


def send(task: str, *, queue: str, count: int = 1) -> None:
    """Send messages that start a task. Raises RedisError if Redis does not accept them."""
    try:
        with app.producer_or_acquire() as producer:
            for _ in range(count):
                app.send_task(task, queue=queue, producer=producer)
    except OperationalError as error:
        raise RedisConnectionError(str(error)) from error


@setup_logging.connect
def keep_django_logging(**_: Any) -> None:
    """Keep the logging configuration of Django's settings."""


Handler = Callable[..., None]


def required(handler: Handler) -> Handler:
    """Let an error in a handler of `worker_init` end the process. Celery would log it and start the worker."""

    @wraps(handler)
    def run(**arguments: Any) -> None:
        try:
            handler(**arguments)
        except Exception as error:
            logger.critical("the worker cannot start", exc_info=True)
            raise SystemExit(1) from error

    return run


@worker_init.connect
@required
def limit_worker_statements(**_: Any) -> None:
    """Limit the duration of this worker's database statements."""
    from simservice.postgresql import connections

    connections.limit_statements(connections.WORKER_STATEMENT_SECONDS)


@task_prerun.connect
def check_connections(**_: Any) -> None:
    """Close this thread's database connection if it failed or is too old."""
    close_old_connections()


@worker_ready.connect
def wake_after_tasks(sender: Any, **_: Any) -> None:
    """Let this worker request its next message as soon as a task has ended.

    Celery's main thread requests messages, and could take up to a second to notice a free slot.
    """
    hub: Hub = sender.hub

    def wake(task_id: str, **_: Any) -> None:
        if request := state.requests.get(task_id):
            hub.call_soon(request_next, request)

    def request_next(ended: Request) -> None:
        # After each call of this function, the main thread requests a message if a slot is free.
        if ended in state.reserved_requests:
            hub.call_later(RETRY_SECONDS, request_next, ended)

    task_postrun.connect(wake, weak=False, dispatch_uid="wake")


@worker_ready.connect
def report_heartbeats(sender: Any, **_: Any) -> None:
    """Report the heartbeat of a worker that runs no simulations, for each of its queues.

    Simulation workers report theirs from a thread of their own (`jobs/execution/simulation_worker.py`).
    """
    from simservice import worker_heartbeats

    queues = [name for name in worker_heartbeats.SERVICE_QUEUES if name in sender.app.amqp.queues.consume_from]

    def report() -> None:
        for queue in queues:
            worker_heartbeats.report(f"{queue}@{socket.gethostname()}-{os.getpid()}", slots=sender.pool.limit)

    if queues:
        report()
        sender.hub.call_repeatedly(worker_heartbeats.SERVICE_SECONDS, report)
