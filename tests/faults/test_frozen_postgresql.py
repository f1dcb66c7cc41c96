"""PostgreSQL stops responding but keeps its connections open: what `web` answers, and when.

The limits are longer than usual response times, for busy machines.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from django.conf import settings
from django.db import connection
from pytest_django import DjangoDbBlocker

from localstack.supervisor import Supervisor
from simservice.postgresql import base
from tests.emptying import empty_database
from tests.factories import make_key
from tests.faults.proxy import Address, Proxy, proxy
from tests.pgbouncer import start_pgbouncer
from tests.waiting import wait_until
from tests.web_server import Response, WebServer, request, web_server

pytestmark = [pytest.mark.timeout(240), pytest.mark.direct]
THREADS = 8
# The limit that `patient_worker` sets in the processes of the web server
STATEMENT_SECONDS = 60
PATIENT = "tests.faults.patient_worker.Worker"
# Far longer than a notice takes on a busy machine, and shorter than the limit of statements.
NOTICED_SECONDS = STATEMENT_SECONDS / 2
STATIC = b"/static/css/site.css"
SHARE = b"/share/" + b"x" * 22


def server_socket() -> str:
    """Return the path of the Unix socket of the tests' PostgreSQL."""
    (folder,) = parse_qs(urlsplit(os.environ["DATABASE_URL"]).query)["host"]
    return f"{folder}/.s.PGSQL.5432"


def url_through(address: Address) -> str:
    """Return the URL of the test database at another address."""
    parts = urlsplit(os.environ["DATABASE_URL"])
    user = f"{parts.username}:{parts.password}@"
    name = settings.DATABASES["default"]["NAME"]
    if isinstance(address, tuple):
        return f"postgresql://{user}{address[0]}:{address[1]}/{name}"
    return f"postgresql://{user}/{name}?host={Path(address).parent}"


@pytest.fixture(params=["tcp", "unix"])
def frozen(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[tuple[WebServer, Proxy, bytes]]:
    """A web server behind a proxy of PostgreSQL, and an `Authorization` header."""
    address: Address = str(tmp_path / ".s.PGSQL.5432") if request.param == "unix" else ("127.0.0.1", 0)
    with django_db_blocker.unblock():
        bearer = f"Authorization: Bearer {make_key()[1]}".encode()
        with serving(address, tmp_path) as (web, gate):
            yield web, gate, bearer
        empty_database()


@contextmanager
def serving(address: Address, folder: Path) -> Iterator[tuple[WebServer, Proxy]]:
    with proxy(server_socket(), address) as gate:
        reached: Address = ("127.0.0.1", gate.port) if isinstance(address, tuple) else address
        with web_server(folder / "web.log", worker=PATIENT, database_url=url_through(reached)) as web:
            yield web, gate


def timed(web: WebServer, target: bytes, *headers: bytes) -> tuple[Response, float]:
    """Return a response, and how many seconds it took."""
    started = time.monotonic()
    return web.send(request(target, *headers)), time.monotonic() - started


def wait_until_answered(web: WebServer, bearer: bytes) -> None:
    """Wait until the API answers again."""
    wait_until(lambda: web.send(request(b"/v1/sim/jobs", bearer)).status == 200)


def test_web_answers_while_postgresql_is_frozen(frozen: tuple[WebServer, Proxy, bytes]) -> None:
    web, gate, bearer = frozen
    with ThreadPoolExecutor(3 * THREADS) as clients:
        # Give each thread a connection.
        list(clients.map(lambda _: web.send(request(b"/v1/sim/jobs", bearer)), range(3 * THREADS)))
        gate.flows.clear()
        stuck = [clients.submit(timed, web, b"/v1/sim/jobs", bearer) for _ in range(2 * THREADS)]
        others = {path: clients.submit(timed, web, path) for path in (b"/healthz", b"/readyz", STATIC)}
        answers = {path: pending.result() for path, pending in others.items()}
        assert {path: answer.status for path, (answer, _) in answers.items()} == {
            b"/healthz": 200,
            b"/readyz": 503,
            STATIC: 200,
        }
        # Before the statements' own deadline: the outage was noticed.
        assert max(seconds for _, seconds in answers.values()) < NOTICED_SECONDS
        refused = [pending.result() for pending in stuck]
        assert {answer.code() for answer, _ in refused} == {"queue_unavailable"}
        assert max(seconds for _, seconds in refused) < NOTICED_SECONDS
    # Later requests are not delayed.
    assert timed(web, b"/readyz")[1] < NOTICED_SECONDS
    assert timed(web, SHARE)[0].status == 503
    gate.flows.set()
    wait_until_answered(web, bearer)


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch, django_db_setup: None) -> Iterator[Any]:
    """A connection with a short deadline and no time limit of PostgreSQL's own."""
    monkeypatch.setattr(base.limits, "deadline_seconds", 0.5)
    parameters = connection.get_connection_params() | {"cursor_factory": None}
    with base.Connection.connect(**parameters) as limited:
        yield limited


@pytest.mark.django_db
def test_a_statement_without_a_response_closes_its_connection(limited: base.Connection) -> None:
    with pytest.raises(psycopg.OperationalError, match="does not respond"):
        limited.execute("SELECT pg_sleep(2)")
    assert limited.closed


@pytest.mark.django_db
def test_a_slow_statement_is_not_an_outage(limited: base.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base.limits, "deadline_seconds", 30.0)
    monkeypatch.setattr(base.limits, "watched", True)
    limited.execute("SELECT pg_sleep(1)")
    assert not base.outage.is_known()
    assert limited.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.django_db
def test_a_slow_statement_tests_the_server_again_and_again(
    limited: base.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server can freeze after it passed a test."""
    tests = []

    def refuse(*_: object, **__: object) -> None:
        tests.append(time.monotonic())
        raise psycopg.OperationalError("too many clients")

    monkeypatch.setattr(base.limits, "deadline_seconds", 30.0)
    monkeypatch.setattr(base.limits, "watched", True)
    monkeypatch.setattr(base.limits, "tested_at", float("-inf"))
    monkeypatch.setattr(base, "TEST_EVERY_SECONDS", 0.3)
    monkeypatch.setattr(base.Probe, "connect", refuse)
    limited.execute("SELECT pg_sleep(2)")
    assert len(tests) >= 2


@pytest.mark.django_db
def test_during_an_outage_connections_fail_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base.limits, "watched", True)
    monkeypatch.setattr(base.outage, "_retry_at", time.monotonic() + 1000)
    parameters = connection.get_connection_params() | {"cursor_factory": None}
    with pytest.raises(psycopg.OperationalError, match="does not respond"):
        base.Connection.connect(**parameters)
    monkeypatch.setattr(base.outage, "_retry_at", time.monotonic())
    base.Connection.connect(**parameters).close()
    assert not base.outage.is_known()


@pytest.mark.django_db
def test_any_response_ends_an_outage(limited: base.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection can time out once although PostgreSQL works; slow statements must not be given up for it."""
    monkeypatch.setattr(base.limits, "deadline_seconds", 30.0)
    monkeypatch.setattr(base.limits, "watched", True)
    base.outage.record_failure(TimeoutError())
    limited.execute("SELECT 1")
    assert not base.outage.is_known()
    limited.execute("SELECT pg_sleep(1)")


@pytest.fixture
def pooled(
    tmp_path: Path, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[tuple[WebServer, Proxy, bytes]]:
    """A web server that uses PgBouncer, which is before a proxy of PostgreSQL, and an `Authorization` header."""
    if shutil.which("pgbouncer") is None:
        pytest.skip("needs PgBouncer")
    supervisor = Supervisor()
    with (
        django_db_blocker.unblock(),
        tempfile.TemporaryDirectory() as folder,
        proxy(server_socket(), ("127.0.0.1", 0)) as gate,
    ):
        bearer = f"Authorization: Bearer {make_key()[1]}".encode()
        behind = url_through(("127.0.0.1", gate.port))
        try:
            url = start_pgbouncer(supervisor, Path(folder) / "ini", database_url=behind, log=tmp_path / "log")
            with web_server(tmp_path / "web.log", worker=PATIENT, database_url=url) as web:
                yield web, gate, bearer
        finally:
            gate.flows.set()
            supervisor.stop()
            empty_database()


def test_web_answers_while_postgresql_behind_a_pooler_is_frozen(pooled: tuple[WebServer, Proxy, bytes]) -> None:
    web, gate, bearer = pooled
    with ThreadPoolExecutor(3 * THREADS) as clients:
        list(clients.map(lambda _: web.send(request(b"/v1/sim/jobs", bearer)), range(3 * THREADS)))
        gate.flows.clear()
        stuck = [clients.submit(timed, web, b"/v1/sim/jobs", bearer) for _ in range(2 * THREADS)]
        others = [clients.submit(timed, web, path) for path in (b"/healthz", STATIC)]
        answers = [pending.result() for pending in others]
        assert [answer.status for answer, _ in answers] == [200, 200]
        assert max(seconds for _, seconds in answers) < NOTICED_SECONDS
        refused = [pending.result() for pending in stuck]
        assert {answer.code() for answer, _ in refused} == {"queue_unavailable"}
        assert max(seconds for _, seconds in refused) < NOTICED_SECONDS
    assert timed(web, SHARE)[0].status == 503
    gate.flows.set()
    wait_until_answered(web, bearer)
