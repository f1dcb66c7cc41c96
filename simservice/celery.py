"""The Celery application and its queues: three lanes of simulation jobs, `webhooks` and `control`.

Messages can be lost or repeated without harm, so they are not acknowledged late, retried or stored.
"""

import os
from typing import Any

from celery import Celery
from celery.signals import celeryd_after_setup, heartbeat_sent, setup_logging, worker_init, worker_ready
from kombu import Exchange, Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "simservice.settings")

LANE_QUEUES = ("sim.high", "sim.standard", "sim.background")

app = Celery("simservice", fixups=["simservice.celery_fixup:install"])
app.config_from_object("django.conf:settings", namespace="CELERY")
# The anonymous exchange stores no bindings in Redis, so routing still works after Redis was emptied.
app.conf.task_queues = [
    Queue(name, Exchange(""), routing_key=name) for name in (*LANE_QUEUES, "webhooks", "control")
]
app.conf.slots = 1
# The active sandbox layers. A simulation worker detects them before it runs a job.
app.conf.sandbox_layers = []
app.autodiscover_tasks()


@setup_logging.connect
def keep_django_logging(**_: Any) -> None:
    """Keep the logging configuration of Django's settings."""


@worker_init.connect
def limit_worker_statements(**_: Any) -> None:
    """Limit the duration of this worker's database statements."""
    from simservice import database

    database.limit_statements(database.WORKER_STATEMENT_SECONDS)


@celeryd_after_setup.connect
def store_slots(instance: Any, **_: Any) -> None:
    """Store the number of tasks that this worker runs at a time, for its heartbeats."""
    app.conf.slots = instance.concurrency


@heartbeat_sent.connect
def report_heartbeat(sender: Any, **_: Any) -> None:
    """Record that this worker is alive, with each of Celery's heartbeats (every two seconds)."""
    from simservice.redis import worker_heartbeats

    worker_heartbeats.report(sender.eventer.hostname, slots=app.conf.slots, layers=app.conf.sandbox_layers)


@worker_ready.connect
def report_start(sender: Any, **_: Any) -> None:
    """Record that this worker is alive as soon as it takes tasks, before its first heartbeat."""
    from simservice.redis import worker_heartbeats

    worker_heartbeats.report(sender.hostname, slots=app.conf.slots, layers=app.conf.sandbox_layers)
