"""Celery's integration with Django, without two of its habits that cost every task or every worker.

Celery closes the database's connection before and after each task, and a new one costs PostgreSQL a process. Celery
also runs Django's checks in every worker and ignores their result, but loads all URLs, pages and the admin for them.
"""

from typing import Any, cast

from celery import Celery
from celery.fixups.django import DjangoFixup, DjangoWorkerFixup
from django.db import close_old_connections


class WorkerFixup(DjangoWorkerFixup):
    """Sets up Django in a worker and keeps the connections of its threads."""

    def validate_models(self) -> None:
        """Set up Django."""
        self.django_setup()

    def close_database(self, **_: Any) -> None:
        """Close this thread's connection if it failed or is older than CONN_MAX_AGE. Check it before the next use."""
        close_old_connections()


class Fixup(DjangoFixup):
    """Installs `WorkerFixup` in workers."""

    @property
    def worker_fixup(self) -> DjangoWorkerFixup:
        if self._worker_fixup is None:
            self._worker_fixup = WorkerFixup(self.app)
        return self._worker_fixup


def install(app: Celery) -> Fixup:
    """Install the integration for an app."""
    return cast(Fixup, Fixup(app).install())
