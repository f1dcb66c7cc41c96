"""The Celery application and its queues: `sim`, `webhooks` and `control`.

Nothing is sent to `sim`. A worker that consumes it has simulation slots, which claim jobs from the database.
Messages can be lost or repeated without harm, so they are not acknowledged late, retried or stored.
"""

import logging
import os
from collections.abc import Callable
from functools import wraps
from typing import Any

from celery import Celery
from celery.signals import setup_logging, worker_init
from kombu import Exchange, Queue

logger = logging.getLogger(__name__)

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "simservice.settings")

app = Celery("simservice", fixups=["simservice.celery_fixup:install"])
app.config_from_object("django.conf:settings", namespace="CELERY")
# The anonymous exchange stores no bindings in Redis, so routing still works after Redis was emptied.
app.conf.task_queues = [Queue(name, Exchange(""), routing_key=name) for name in ("sim", "webhooks", "control")]
app.autodiscover_tasks()


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
    from simservice import database

    database.limit_statements(database.WORKER_STATEMENT_SECONDS)


def stop_failed_worker() -> None:
    """Stop this process's worker with a non-zero status, so that its process manager restarts it. Thread-safe."""
    from celery.platforms import EX_FAILURE
    from celery.worker import state

    # Celery's own signal handlers set the same variable, which its main loop checks at least every five seconds.
    state.should_stop = EX_FAILURE  # type: ignore[assignment]  # in the stubs, always None
