"""The modules that the launcher loads, and the database connections that workers keep."""

import json
import os
import subprocess
import sys

import pytest
from django.conf import settings
from django.db import connection, connections

from simservice.celery import app, check_connections

LAUNCHER = "import sandbox.launcher"
# The launcher is forked for each run, so it must stay small.
NOT_IN_LAUNCHER = {
    "asyncio",
    "celery",
    "django",
    "email",
    "jobs.models",
    "logging",
    "psycopg",
    "redis",
    "ssl",
}


def test_the_launcher_loads_only_what_it_needs() -> None:
    program = f"{LAUNCHER}\nimport sys, json\nprint(json.dumps([n for n, m in sys.modules.items() if m]))"
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "simservice.settings"}
    command = [sys.executable, "-W", "ignore", "-c", program]
    output = subprocess.check_output(command, cwd=settings.BASE_DIR, env=environment, text=True)
    assert NOT_IN_LAUNCHER.intersection(json.loads(output.splitlines()[-1])) == set()


@pytest.mark.django_db(transaction=True)
def test_a_worker_keeps_its_connection_between_tasks() -> None:
    (fixup,) = app._fixups  # type: ignore[attr-defined]
    before = backend()
    for _ in range(3):
        fixup.worker_fixup.close_database()
        check_connections()
    assert backend() == before


@pytest.mark.django_db(transaction=True)
def test_a_worker_replaces_a_connection_that_was_lost() -> None:
    connection.ensure_connection()
    connection.connection.close()
    check_connections()
    assert backend()


def backend() -> int:
    """Return the process id of this thread's PostgreSQL backend."""
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone() or (0,)
    return int(pid)
