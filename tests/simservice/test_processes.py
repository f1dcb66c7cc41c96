"""The modules that each kind of process loads, and the database connections that workers keep."""

import json
import os
import subprocess
import sys

import pytest
from django.conf import settings
from django.db import connection, connections

from simservice.celery import app
from simservice.celery_fixup import Fixup, WorkerFixup

WEB = "import simservice.wsgi, simservice.urls"
WORKER = """
import simservice.worker
from simservice.celery import app
app.loader.import_default_modules()
"""
SIMULATION_WORKER = """
import simservice.worker
from simservice.celery import app
app.loader.import_default_modules()
import jobs.simulation_worker
"""
LAUNCHER = "import jobs.simulator.launcher"
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
# Tools of developers, documents that few requests need, and what only some deployments use
UNUSED = {
    "boto3",
    "botocore",
    "django.test",
    "drf_spectacular.generators",
    "greenlet",
    "opentelemetry",
    "pygments",
    "requests",
    "sentry_sdk",
    "yaml",
}
# What only workers with slots need
SLOTS = {"jobs.simulation_worker", "jobs.execution.attempt", "jobs.simulator.process"}
# What only the web server needs
WEB_ONLY = {
    "allauth.account.forms",
    "allauth.mfa.base.views",
    "celery.bin",
    "click_repl",
    "dashboard.views",
    "fido2",
    "gunicorn",
    "jobs.admin",
    "jobs.api",
    "limits",
    "prompt_toolkit",
    "rest_framework.views",
    "simservice.urls",
    "whitenoise",
}


@pytest.mark.parametrize(
    ("process", "unused"),
    [
        (WEB, UNUSED | SLOTS),
        (WORKER, UNUSED | WEB_ONLY | SLOTS),
        (SIMULATION_WORKER, UNUSED | WEB_ONLY),
        (LAUNCHER, UNUSED | WEB_ONLY | NOT_IN_LAUNCHER),
    ],
    ids=["web", "worker", "simulation worker", "launcher"],
)
def test_a_process_loads_only_what_it_needs(process: str, unused: set[str]) -> None:
    program = f"{process}\nimport sys, json\nprint(json.dumps([n for n, m in sys.modules.items() if m]))"
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "simservice.settings"}
    command = [sys.executable, "-W", "ignore", "-c", program]
    output = subprocess.check_output(command, cwd=settings.BASE_DIR, env=environment, text=True)
    assert unused.intersection(json.loads(output.splitlines()[-1])) == set()


@pytest.mark.django_db(transaction=True)
def test_a_worker_keeps_its_connection_between_tasks() -> None:
    (fixup,) = app._fixups  # type: ignore[attr-defined]
    assert isinstance(fixup, Fixup)
    assert isinstance(fixup.worker_fixup, WorkerFixup)
    before = backend()
    for _ in range(3):
        fixup.worker_fixup.close_database()
    assert backend() == before


@pytest.mark.django_db(transaction=True)
def test_a_worker_replaces_a_connection_that_was_lost() -> None:
    connection.ensure_connection()
    connection.connection.close()
    WorkerFixup(app).close_database()
    assert backend()


def backend() -> int:
    """Return the process id of this thread's PostgreSQL backend."""
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone() or (0,)
    return int(pid)
