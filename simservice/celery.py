"""The Celery application and its queues: `webhooks` and `control`.

Messages can be lost or repeated without harm, so they are not acknowledged late, retried or stored.
"""

import os
from typing import Any

from celery import Celery
from celery.signals import setup_logging, worker_init
from kombu import Exchange, Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "simservice.settings")

app = Celery("simservice", fixups=["simservice.celery_fixup:install"])
app.config_from_object("django.conf:settings", namespace="CELERY")
# The anonymous exchange stores no bindings in Redis, so routing still works after Redis was emptied.
app.conf.task_queues = [Queue(name, Exchange(""), routing_key=name) for name in ("webhooks", "control")]
app.autodiscover_tasks()


@setup_logging.connect
def keep_django_logging(**_: Any) -> None:
    """Keep the logging configuration of Django's settings."""


@worker_init.connect
def limit_worker_statements(**_: Any) -> None:
    """Limit the duration of this worker's database statements."""
    from simservice import database

    database.limit_statements(database.WORKER_STATEMENT_SECONDS)
