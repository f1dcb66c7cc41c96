"""The Celery application: lanes of hints for the simulation workers, and a queue for keeping the house.

Every message may be lost or repeated without harm, so none is acknowledged late, retried or kept.
"""

import os
from typing import Any

from celery import Celery
from celery.signals import celeryd_after_setup, heartbeat_sent, setup_logging, worker_init, worker_ready
from kombu import Exchange, Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "simservice.settings")

LANE_QUEUES = ("sim.high", "sim.standard", "sim.background")

app = Celery("simservice")
app.config_from_object("django.conf:settings", namespace="CELERY")
# The anonymous exchange needs no bindings in Redis, so an emptied Redis loses no route.
app.conf.task_queues = [
    Queue(name, Exchange(""), routing_key=name) for name in (*LANE_QUEUES, "webhooks", "control")
]
app.conf.slots = 1
# The sandbox layers that are active here; a simulation worker detects them before it takes a job.
app.conf.sandbox_layers = []
app.autodiscover_tasks()


@setup_logging.connect
def keep_django_logging(**_: Any) -> None:
    """Leave logging as Django's settings made it."""


@worker_init.connect
def limit_worker_statements(**_: Any) -> None:
    """Limit the duration of this worker's database statements."""

    from simservice import database

    database.limit_statements(database.WORKER_STATEMENT_SECONDS)


@celeryd_after_setup.connect
def remember_slots(instance: Any, **_: Any) -> None:
    """Note how many tasks this worker does at a time, which its heartbeats do not know."""
    app.conf.slots = instance.concurrency


@heartbeat_sent.connect
def report_presence(sender: Any, **_: Any) -> None:
    """Tell Redis that this worker lives, with every heartbeat Celery sends (every two seconds)."""
    from simservice.redis import worker_heartbeats

    worker_heartbeats.report(sender.eventer.hostname, slots=app.conf.slots, layers=app.conf.sandbox_layers)


@worker_ready.connect
def report_readiness(sender: Any, **_: Any) -> None:
    """Tell Redis as soon as the worker listens, rather than with its first heartbeat."""
    from simservice.redis import worker_heartbeats

    worker_heartbeats.report(sender.hostname, slots=app.conf.slots, layers=app.conf.sandbox_layers)
