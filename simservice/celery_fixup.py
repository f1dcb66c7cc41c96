"""Celery's integration with Django, changed to keep database connections and to skip Django's checks.

By default, Celery closes the database connection before and after each task, and PostgreSQL starts a process for
each new connection. Celery also runs Django's checks in every worker and ignores their result. The checks load all
URLs, pages and the admin.
"""

from functools import cached_property
from typing import Any, cast

from celery import Celery
from celery.fixups.django import DjangoFixup, DjangoWorkerFixup  # type: ignore[attr-defined]  # not in the stubs
from django.db import close_old_connections


class WorkerFixup(DjangoWorkerFixup):  # type: ignore[misc]
    """Sets up Django in a worker and keeps the connections of its threads."""

    def validate_models(self) -> None:
        """Set up Django."""
        self.django_setup()

    def close_database(self, **_: Any) -> None:
        """Close this thread's connection if it failed or is too old. Otherwise, check it before its next use."""
        close_old_connections()


class Fixup(DjangoFixup):
    """Installs `WorkerFixup` in workers."""

    @property
    def worker_fixup(self) -> WorkerFixup:
        return self._worker

    @cached_property
    def _worker(self) -> WorkerFixup:
        return WorkerFixup(self.app)


def install(app: Celery) -> Fixup:
    """Install the integration for an app."""
    return cast(Fixup, Fixup(app).install())
