"""MCP messages that wait for a job, and clients that do not read, on the real web server."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from clients.models import ApiKey, Membership
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.live.progress import Progress, Publisher
from jobs.models import Job
from tests.factories import make_job, make_member, make_running_job
from tests.waiting import wait_until
from tests.web_server import SOON_SECONDS, Connection, WebServer, request, web_server

# Committed, so that the server sees it
pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.xdist_group("web"),
    pytest.mark.timeout(180),
]
# Several looks for changes
QUIET_SECONDS = 1.0
FAILED = Outcome(status=Status.FAILED, error_code="queue_timeout")
UNREAD = 10


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, django_db_setup: None) -> Iterator[WebServer]:
    """A server whose threads wait one second for a client that does not read."""
    log = tmp_path_factory.mktemp("mcp") / "web.log"
    with web_server(log, worker="tests.simservice.strict_worker.Worker") as server:
        yield server


def message(secret: str, method: str, params: dict[str, Any]) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = [
        f"Authorization: Bearer {secret}".encode(),
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(body),
    ]
    return request(b"/mcp", *headers, method=b"POST", body=body)


class Waiting(Connection):
    """A message that waits, after one that does not: the first of a server is slow."""

    def __init__(self, server: WebServer, secret: str, method: str, params: dict[str, Any]) -> None:
        super().__init__(server)
        self.socket.sendall(message(secret, "ping", {}))
        self.answer()
        self.socket.sendall(message(secret, method, params))


def wait_for(job: Job, seconds: int = 25) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": "wait", "arguments": {"jobId": str(job.pk), "seconds": seconds}}


def test_wait_is_answered_when_the_job_changes(web: WebServer, key: tuple[ApiKey, str]) -> None:
    job = make_running_job(client=key[0].client)
    with Waiting(web, key[1], *wait_for(job)) as waiting:
        assert not waiting.is_answered(within=QUIET_SECONDS)
        Publisher(job).publish(Progress(percent=41.5, stage=None))
        assert waiting.is_answered()
        assert waiting.answer().json()["result"]["structuredContent"]["percent"] == 41.5


def test_wait_is_answered_after_its_time(web: WebServer, key: tuple[ApiKey, str]) -> None:
    with Waiting(web, key[1], *wait_for(make_job(key[0].client), seconds=1)) as waiting:
        assert not waiting.answer().json()["result"]["structuredContent"]["hasEnded"]


def test_the_result_of_a_task_waits_for_its_end(web: WebServer, key: tuple[ApiKey, str]) -> None:
    job = make_running_job(client=key[0].client)
    with Waiting(web, key[1], "tasks/result", {"taskId": str(job.pk)}) as waiting:
        Publisher(job).publish(Progress(percent=41.5, stage=None))
        assert not waiting.is_answered(within=QUIET_SECONDS)
        assert job_moves.finish(job, FAILED)
        assert waiting.is_answered()
        assert waiting.answer().json()["result"]["isError"]


def test_a_key_revoked_during_the_wait_is_refused(web: WebServer, key: tuple[ApiKey, str]) -> None:
    with Waiting(web, key[1], *wait_for(make_job(key[0].client), seconds=2)) as waiting:
        assert not waiting.is_answered(within=QUIET_SECONDS)
        ApiKey.objects.update(revoked_at="2026-01-01T00:00Z")
        assert waiting.answer().code() == "revoked_token"


def test_a_key_that_loses_its_right_to_submit_keeps_waiting(web: WebServer, key: tuple[ApiKey, str]) -> None:
    job = make_job(key[0].client)
    with Waiting(web, key[1], *wait_for(job)) as waiting:
        assert not waiting.is_answered(within=QUIET_SECONDS)
        member = make_member(job.account, role=Membership.Role.VIEWER)
        ApiKey.objects.update(created_by=member.user)
        waiting.socket.sendall(message(key[1], "tasks/cancel", {"taskId": str(job.pk)}))
        assert not waiting.is_answered(within=QUIET_SECONDS)
        assert job_moves.finish(job, FAILED)
        assert waiting.answer().json()["result"]["structuredContent"]["status"] == "failed"
        assert waiting.answer().json()["error"]["data"]["code"] == "read_only_key"


def test_clients_that_never_read_delay_nobody(web: WebServer, key: tuple[ApiKey, str]) -> None:
    """Each sends messages until the server takes no more. Its connection is closed, which frees its thread."""
    clients = [socket.create_connection(("127.0.0.1", web.port)) for _ in range(UNREAD)]
    for client in clients:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(0)
    sent = message(key[1], "tools/list", {}) * 200
    for client in clients:
        send_some(client, sent)
    started = time.monotonic()
    assert web.send(request(b"/healthz", b"Connection: close")).status == 200
    assert time.monotonic() - started < SOON_SECONDS
    for client in clients:
        wait_until(partial(is_closed, client))
        client.close()


def send_some(client: socket.socket, data: bytes) -> None:
    """Send as much as the server takes at once."""
    with suppress(BlockingIOError):
        client.sendall(data)


def is_closed(client: socket.socket) -> bool:
    """Return whether the server has closed a connection, without reading what it sent."""
    try:
        client.send(b" ")
    except BlockingIOError:
        return False
    except OSError:
        return True
    return False
