"""Statement timeouts of each kind of process."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from django.conf import settings
from django.db import connection

from simservice.postgresql.connections import WEB_STATEMENT_SECONDS
from tests.web_server import REQUEST_ID, Response, WebServer, request

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.xdist_group("web")]

BUILDS = b"/v1/sim/builds"
SHARE = b"/share/" + b"x" * 22
ARTIFACT = b"/artifacts/" + b"x" * 22
THREADS = 8
SHOW = """
from django.db import connection
with connection.cursor() as cursor:
    print(cursor.execute("SHOW statement_timeout").fetchone()[0])
"""
WORKER = """
from celery.signals import worker_init
from simservice.celery import app
worker_init.send(type("Worker", (), {"hostname": "control@here", "app": app}))
"""


@pytest.mark.parametrize(
    ("process", "limit"),
    [("", "0"), ("import simservice.wsgi", "5s"), (WORKER, "30s")],
    ids=["command", "web", "worker"],
)
def test_statement_timeouts_depend_on_the_process(process: str, limit: str) -> None:
    program = f"import django; django.setup()\n{process}\n{SHOW}"
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "simservice.settings"}
    command = [sys.executable, "-W", "ignore", "-c", program]
    output = subprocess.check_output(command, cwd=settings.BASE_DIR, env=environment, text=True)
    assert output.splitlines()[-1] == limit


@pytest.fixture
def locked(web: WebServer, bearer: bytes) -> Iterator[psycopg.Connection]:
    """A transaction that blocks reads of jobs, artifacts and builds until it ends."""
    with psycopg.connect(**connection.get_connection_params() | {"cursor_factory": None}) as other:
        other.execute("SET idle_in_transaction_session_timeout = 0")
        other.execute("LOCK TABLE jobs_job, jobs_artifact, jobs_build")
        yield other


def get_page(web: WebServer, bearer: bytes, path: bytes) -> Response:
    return web.send(request(path, bearer))


def test_a_query_that_times_out_returns_503(web: WebServer, bearer: bytes, locked: psycopg.Connection) -> None:
    """With the envelope; all threads and connections keep working."""
    started = time.monotonic()
    with ThreadPoolExecutor(THREADS) as callers:
        paths = [SHARE, ARTIFACT, *[BUILDS] * (THREADS - 2)]
        page, *others = callers.map(lambda path: get_page(web, bearer, path), paths)
    # The lock is held until the test releases it.
    assert time.monotonic() - started > WEB_STATEMENT_SECONDS - 1
    assert (page.status, page.headers["Retry-After"]) == (503, "10")
    assert page.headers["Content-Type"] == "application/json"
    assert REQUEST_ID.fullmatch(page.headers["X-Request-Id"])
    for response in others:
        assert (response.status, response.code(), response.headers["Retry-After"]) == (
            503,
            "queue_unavailable",
            "10",
        )
        assert response.json()["meta"]["reason"] == "database_unavailable"
    locked.rollback()
    with ThreadPoolExecutor(THREADS) as callers:
        assert {
            response.status for response in callers.map(lambda _: get_page(web, bearer, BUILDS), range(2 * THREADS))
        } == {200}
