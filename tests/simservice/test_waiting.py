"""Requests that wait for a change, on the real web server (docs/reference/api.md#wait-for-a-change)."""

import os
import select
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from django.db import connection as database

from clients.models import ApiKey
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.live.progress import Progress, Publisher
from jobs.models import Job
from simservice.web.gunicorn_worker import MAX_PARKED_BYTES
from simservice.web.waiting import Places
from tests.factories import make_job, make_key, make_running_job
from tests.simservice.strict_worker import CONNECTIONS
from tests.waiting import wait_until
from tests.web_server import Connection, WebServer, request, web_server

# Committed, so that the server sees it
pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.xdist_group("web"),
    pytest.mark.timeout(180),
]
MANY = 200
ACCOUNTS = 10
PLACES = CONNECTIONS * 3 // 4
# Several looks for changes
QUIET_SECONDS = 1.0
FAILED = Outcome(status=Status.FAILED, error_code="queue_timeout")


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[WebServer]:
    """A server with few connections."""
    with web_server(tmp_path / "strict.log", worker="tests.simservice.strict_worker.Worker") as server:
        yield server


@pytest.fixture
def stoppable(tmp_path: Path) -> Iterator[WebServer]:
    """A server of this test's own."""
    with web_server(tmp_path / "web.log") as server:
        yield server


class Waiting(Connection):
    """A request for a job's status that waits, after one that does not: the first of a server is slow."""

    def __init__(self, server: WebServer, job: Job, secret: str, *, seconds: int = 25, body: bytes = b"") -> None:
        target = f"/v1/sim/jobs/{job.pk}/status".encode()
        self.bearer = f"Authorization: Bearer {secret}".encode()
        super().__init__(server)
        self.socket.sendall(request(target, self.bearer))
        self.answer()
        length = b"Content-Length: %d" % len(body)
        self.socket.sendall(request(target + b"?wait=%d" % seconds, self.bearer, length, body=body))
        self.since = time.monotonic()


def publish(job: Job, percent: float) -> None:
    Publisher(job).publish(Progress(percent=percent, stage=None))


def worker_of(server: WebServer) -> psutil.Process:
    """Return the process of the server that handles requests."""
    return psutil.Process(server.process.pid).children(recursive=True)[-1]


def test_the_end_of_a_job_is_answered_when_it_happens(web: WebServer, key: tuple[ApiKey, str]) -> None:
    job = make_job(key[0].client)
    with Waiting(web, job, key[1]) as waiting:
        assert not waiting.is_answered(within=QUIET_SECONDS)
        assert job_moves.finish(job, FAILED)
        assert waiting.is_answered()
        assert waiting.answer().json()["status"] == "failed"


def test_only_whole_percents_are_answered(web: WebServer, key: tuple[ApiKey, str]) -> None:
    job = make_running_job(client=key[0].client)
    publish(job, 40.2)
    with Waiting(web, job, key[1]) as waiting:
        publish(job, 40.9)
        assert not waiting.is_answered(within=QUIET_SECONDS)
        publish(job, 41.0)
        assert waiting.is_answered()
        assert waiting.answer().json()["progress"]["percent"] == 41.0


def test_an_unchanged_job_is_answered_at_the_end_of_the_wait(web: WebServer, key: tuple[ApiKey, str]) -> None:
    with Waiting(web, make_job(key[0].client), key[1], seconds=1) as waiting:
        response = waiting.answer()
    assert time.monotonic() - waiting.since >= 1
    assert response.json()["status"] == "pending"


def test_an_ended_job_is_answered_at_once(web: WebServer, key: tuple[ApiKey, str]) -> None:
    job = make_job(key[0].client)
    assert job_moves.finish(job, FAILED)
    with Waiting(web, job, key[1]) as waiting:
        assert waiting.is_answered()


def test_a_request_with_a_large_body_is_answered_at_once(web: WebServer, key: tuple[ApiKey, str]) -> None:
    """Its body would be kept during the wait, and bodies of others would be refused for it."""
    job = make_job(key[0].client)
    with Waiting(web, job, key[1], body=b" " * MAX_PARKED_BYTES) as waiting:
        assert not waiting.is_answered(within=QUIET_SECONDS)
    with Waiting(web, job, key[1], body=b" " * (MAX_PARKED_BYTES + 1)) as waiting:
        assert waiting.is_answered()


def test_another_accounts_job_is_answered_at_once(web: WebServer, key: tuple[ApiKey, str]) -> None:
    with Waiting(web, make_job(), key[1]) as waiting:
        assert waiting.is_answered()
        assert waiting.answer().status == 404


def test_a_removed_job_is_answered(web: WebServer, key: tuple[ApiKey, str]) -> None:
    job = make_job(key[0].client)
    with Waiting(web, job, key[1]) as waiting:
        assert not waiting.is_answered(within=QUIET_SECONDS)
        Job.objects.all().delete()
        assert waiting.is_answered()
        assert waiting.answer().status == 404


def test_a_key_revoked_during_the_wait_is_refused(web: WebServer, key: tuple[ApiKey, str]) -> None:
    job = make_job(key[0].client)
    with Waiting(web, job, key[1], seconds=2) as waiting:
        assert not waiting.is_answered(within=QUIET_SECONDS)
        ApiKey.objects.update(revoked_at="2026-01-01T00:00Z")
        assert waiting.answer().code() == "revoked_token"


def test_a_wait_counts_as_one_request(web: WebServer, key: tuple[ApiKey, str]) -> None:
    with Waiting(web, make_job(key[0].client), key[1], seconds=1) as waiting:
        waiting.answer()
        waiting.socket.sendall(request(b"/v1/sim/builds", waiting.bearer))
        headers = waiting.answer().headers
    assert int(headers["X-RateLimit-Limit"]) - int(headers["X-RateLimit-Remaining"]) == 3


def test_a_wait_is_measured_once(tmp_path: Path, key: tuple[ApiKey, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METRICS_TOKEN", "secret")
    job, secret = make_job(key[0].client), key[1]
    with web_server(tmp_path / "log") as web, Waiting(web, job, secret, seconds=1) as waiting:
        waiting.answer()
        # On the same connection, so that the wait has been counted.
        waiting.socket.sendall(request(b"/metrics", b"Authorization: Bearer secret"))
        text = waiting.answer().body.decode()
    route = '{method="GET",route="v1/sim/jobs/<str:job_id>/status",status="200"}'
    assert f"simservice_request_seconds_count{route} 2.0" in text
    assert "\nsimservice_thread_wait_seconds_count 2.0\n" in text


def test_a_request_sent_early_is_answered_after_the_wait(web: WebServer, key: tuple[ApiKey, str]) -> None:
    with Waiting(web, make_job(key[0].client), key[1], seconds=2) as waiting:
        assert not waiting.is_answered(within=QUIET_SECONDS)
        waiting.socket.sendall(request(b"/healthz"))
        assert waiting.answer().json()["status"] == "pending"
        assert waiting.answer().json() == {"status": "ok"}


def test_many_wait_without_threads_or_database_connections(web: WebServer, key: tuple[ApiKey, str]) -> None:
    keys = [key, *(make_key() for _ in range(ACCOUNTS - 1))]
    jobs = [make_job(one.client) for one, _ in keys]
    with ExitStack() as stack:
        numbers = [n % ACCOUNTS for n in range(MANY)]
        all_waiting = [stack.enter_context(Waiting(web, jobs[n], keys[n][1])) for n in numbers]
        wait_until(lambda: open_sockets(web) >= MANY)
        assert web.send(request(b"/healthz")).status == 200
        assert database_connections() <= 11
        assert worker_of(web).num_threads() <= 14
        assert not answered(all_waiting)
        for job in jobs:
            assert job_moves.finish(job, FAILED)
        assert {waiting.answer().json()["status"] for waiting in all_waiting} == {"failed"}


def open_sockets(server: WebServer) -> int:
    """Return the number of the server's connections with clients."""
    all_sockets = worker_of(server).net_connections("tcp")
    return sum(one.laddr.port == server.port and one.status != psutil.CONN_LISTEN for one in all_sockets)


def database_connections() -> int:
    """Return the number of connections to the test database."""
    with database.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def answered(all_waiting: Sequence[Waiting]) -> list[int]:
    """Return the file descriptors of the sockets that have an answer."""
    poll = select.poll()
    for waiting in all_waiting:
        poll.register(waiting.socket, select.POLLIN)
    return [number for number, _ in poll.poll(0)]


def test_a_client_that_leaves_costs_nothing(web: WebServer, key: tuple[ApiKey, str]) -> None:
    before = open_sockets(web)
    with Waiting(web, make_job(key[0].client), key[1]) as waiting:
        wait_until(lambda: open_sockets(web) > before)
        assert not waiting.is_answered(within=QUIET_SECONDS)
    wait_until(lambda: open_sockets(web) <= before)


def test_an_account_leaves_half_of_the_places_to_others(strict: WebServer, key: tuple[ApiKey, str]) -> None:
    job, (other, secret) = make_job(key[0].client), make_key()
    with ExitStack() as stack:
        greedy = [stack.enter_context(Waiting(strict, job, key[1])) for _ in range(PLACES + 5)]
        wait_until(lambda: len(answered(greedy)) >= PLACES // 2 + 5)
        all_waiting = [stack.enter_context(Waiting(strict, make_job(other.client), secret)) for _ in range(3)]
        time.sleep(QUIET_SECONDS)
        assert (len(answered(greedy)), len(answered(all_waiting))) == (PLACES // 2 + 5, 0)


def test_too_many_waits_are_answered_at_once() -> None:
    places = Places(PLACES)
    assert [places.reserve(owner) for owner in range(PLACES + 5)] == [True] * PLACES + [False] * 5
    places.release(0)
    assert places.reserve("another")


def test_changes_are_seen_after_a_lost_database_connection(web: WebServer, key: tuple[ApiKey, str]) -> None:
    job = make_job(key[0].client)
    with Waiting(web, job, key[1]) as waiting:
        assert not waiting.is_answered(within=QUIET_SECONDS)
        with database.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert job_moves.finish(job, FAILED)
        assert waiting.is_answered()
        assert waiting.answer().json()["status"] == "failed"


def test_a_stopping_server_answers(stoppable: WebServer, key: tuple[ApiKey, str]) -> None:
    with Waiting(stoppable, make_job(key[0].client), key[1]) as waiting:
        wait_until(lambda: open_sockets(stoppable))
        assert not waiting.is_answered(within=QUIET_SECONDS)
        os.kill(stoppable.process.pid, signal.SIGTERM)
        assert waiting.is_answered()
        response = waiting.answer()
    assert (response.status, response.json()["status"]) == (200, "pending")
    assert response.headers["Connection"] == "close"
    assert stoppable.process.wait(30) == 0
