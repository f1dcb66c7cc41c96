"""Slow, stopped and endless clients, which occupy no thread and delay no other client."""

import json
import os
import re
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from gunicorn.config import Config

from simservice.body_limit import MAX_BODY_BYTES
from simservice.web.connections import LINGER_SECONDS, Connection
from tests.simservice.strict_worker import CONNECTIONS, HEAD_SECONDS, REQUEST_SECONDS, SEND_SECONDS, SPOOLED_BYTES
from tests.web_server import Response, WebServer, connected, read_response, request, web_server

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.xdist_group("web"), pytest.mark.timeout(180)]

SLOW_CLIENTS = 100
# If each occupied a thread until the server gives up on it, the last one would be answered after 50 s.
CLOSING_CLIENTS = 200
THREADS = 8
JOBS = b"/v1/sim/jobs"
JSON = b"Content-Type: application/json"
CHUNKED = b"Transfer-Encoding: chunked"
BODY = json.dumps({"build": {"channel": "no such"}, "profile": {"text": ""}}).encode()
LENGTH = b"Content-Length: %d" % len(BODY)
EXPECT = b"Expect: 100-continue"
CLOSE = b"Connection: close"
# Far longer than a request takes on a busy machine, and shorter than a slow client takes to send its own.
SOON_SECONDS = 15.0
# The main loop checks the time about once a second; the rest is for busy machines.
LATE_SECONDS = 20.0


@pytest.fixture(scope="module")
def strict(web: WebServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """A web server with low limits."""
    log = tmp_path_factory.mktemp("strict") / "web.log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("METRICS_TOKEN", "secret")
        with web_server(log, worker="tests.simservice.strict_worker.Worker") as server:
            yield server


def rejected(server: WebServer, reason: str) -> float:
    """Return how often a server has closed a connection for a reason."""
    text = server.send(request(b"/metrics", b"Authorization: Bearer secret")).body.decode()
    return float(text.partition(f'simservice_requests_rejected_total{{reason="{reason}"}} ')[2].split()[0])


def posted(bearer: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    """Return a submission that is rejected for its channel once it has arrived."""
    return request(JOBS, bearer, JSON, *headers, method=b"POST", body=body)


def seconds(send: Callable[[], Response]) -> float:
    started = time.monotonic()
    assert send().status in (200, 400)
    return time.monotonic() - started


@contextmanager
def dripping(clients: list[socket.socket], rest: bytes) -> Iterator[None]:
    """Send one byte per second on each connection."""
    done = threading.Event()

    def drip() -> None:
        for number in range(len(rest)):
            for client in clients:
                with suppress(OSError):
                    client.sendall(rest[number : number + 1])
            if done.wait(1):
                return

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def closed_after(client: socket.socket, rest: bytes = b"", *, started: float) -> float:
    """Send four bytes per second until the server closes the connection; return the seconds since `started`."""
    client_bytes = iter(rest * 1000)
    client.settimeout(0.25)
    while True:
        try:
            if rest:
                client.sendall(bytes([next(client_bytes)]))
            if client.recv(1000) == b"":
                return time.monotonic() - started
        except TimeoutError:
            assert time.monotonic() - started < 20
        except OSError:
            return time.monotonic() - started


def is_open(client: socket.socket) -> bool:
    """Return whether a connection without a response is still open."""
    return not select.select([client], [], [], 0)[0]


PARTS = {
    "line": (b"", b"GET /healthz HTTP/1.1"),
    "headers": (b"GET /healthz HTTP/1.1\r\nX-Y: ", b"y" * 30),
    "body": (posted(b"X-Y: z", LENGTH), BODY),
    "chunks": (posted(b"X-Y: z", CHUNKED) + b"%x\r\n" % len(BODY), BODY),
    "asked-for": (posted(b"X-Y: z", LENGTH, EXPECT), BODY),
}


def test_a_hundred_slow_clients_delay_nobody(web: WebServer, bearer: bytes) -> None:
    with ExitStack() as stack:
        for at_once, rest in PARTS.values():
            clients = stack.enter_context(connected(web, SLOW_CLIENTS // len(PARTS), at_once))
            stack.enter_context(dripping(clients, rest))
        durations = [seconds(lambda: web.send(request(b"/healthz"))) for _ in range(20)]
        durations += [seconds(lambda: web.send(posted(bearer, LENGTH, body=BODY))) for _ in range(10)]
    assert max(durations) < SOON_SECONDS


@pytest.mark.parametrize("part", ["line", "headers"])
def test_a_slow_head_is_aborted(strict: WebServer, part: str) -> None:
    started = time.monotonic()
    with connected(strict, 1, PARTS[part][0] or b"G") as (client,):
        assert HEAD_SECONDS <= closed_after(client, b"x", started=started) < HEAD_SECONDS + LATE_SECONDS


@pytest.mark.parametrize("part", ["body", "chunks", "asked-for"])
def test_a_slow_body_is_aborted(strict: WebServer, part: str) -> None:
    started = time.monotonic()
    with connected(strict, 1, PARTS[part][0]) as (client,):
        assert REQUEST_SECONDS <= closed_after(client, b" ", started=started) < REQUEST_SECONDS + LATE_SECONDS


def test_a_silent_connection_is_closed(strict: WebServer) -> None:
    started = time.monotonic()
    with connected(strict, 1) as (client,):
        assert HEAD_SECONDS <= closed_after(client, started=started) < HEAD_SECONDS + LATE_SECONDS


def test_slow_requests_are_answered(web: WebServer, bearer: bytes) -> None:
    chunked = posted(bearer, CHUNKED) + b"%x\r\n%s\r\n0\r\nX-Y: z\r\n\r\n" % (len(BODY), BODY)
    for sent in (posted(bearer, LENGTH, body=BODY), chunked):
        with web.connection() as client:
            for number in range(len(sent)):
                client.sendall(sent[number : number + 1])
            assert read_response(client).code() == "validation_failed"


def test_pipelined_requests_are_answered_in_order(web: WebServer, bearer: bytes) -> None:
    chunked = posted(bearer, CHUNKED) + b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    sent = [request(b"/healthz"), chunked, posted(bearer, LENGTH, body=BODY), request(b"/v1/nowhere", CLOSE)]
    with connected(web, 1, b"".join(sent)) as (client,):
        text = client.makefile("rb").read()
    assert re.findall(rb"HTTP/1.1 (\d+)", text) == [b"200", b"400", b"400", b"404"]


@pytest.mark.parametrize("framing", [b"Content-Length: 90000000", CHUNKED], ids=["length", "chunks"])
def test_bytes_after_a_rejected_body_are_not_a_request(web: WebServer, bearer: bytes, framing: bytes) -> None:
    start = b"%x\r\n" % 90_000_000 if framing == CHUNKED else b""
    body = start + bytes(MAX_BODY_BYTES + 1) + request(b"/healthz")
    with connected(web, 1, posted(bearer, framing, body=body)) as (client,):
        text = client.makefile("rb").read()
    assert re.findall(rb"HTTP/1.1 (\d+)", text) == [b"413"]


def test_a_closed_connection_accepts_no_request() -> None:
    server_end, client_end = socket.socketpair()
    with server_end, client_end:
        connection = Connection(Config(), server_end, ("127.0.0.1", 1), ("127.0.0.1", 2))
        connection.end()
        client_end.sendall(request(b"/healthz"))
        assert not connection.receive()
        assert not connection.next_is_ready()
        assert connection.deadline(is_stopping=False) == connection.since + LINGER_SECONDS
        connection.body.file.close()


def test_a_long_chunk_line_is_rejected(web: WebServer, bearer: bytes) -> None:
    body = b"1;" + b"x" * 9000 + b"\r\n \r\n0\r\n\r\n"
    with connected(web, 1, posted(bearer, CHUNKED, body=body)) as (client,):
        assert "not valid HTTP/1.1" in str(read_response(client).json())


def test_endless_headers_are_rejected(web: WebServer) -> None:
    with connected(web, 1, request(b"/healthz")[:-2], b"X: y\r\n" * 20_000) as (client,):
        assert read_response(client).code() == "request_too_large"


def test_a_byte_of_a_long_head_costs_little() -> None:
    """Clients that send a head byte by byte must not keep the main loop busy."""
    server_end, client_end = socket.socketpair()
    with server_end, client_end:
        connection = Connection(Config(), server_end, ("127.0.0.1", 1), ("127.0.0.1", 2))
        client_end.sendall(b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 10_000)
        connection.receive()
        started = time.process_time()
        for _ in range(2_000):
            client_end.sendall(b"x")
            assert not connection.receive()
        # A search from the start at each byte takes more than two seconds.
        assert time.process_time() - started < 0.5
        connection.body.file.close()


def test_a_body_of_tiny_chunks_is_rejected(web: WebServer, bearer: bytes) -> None:
    with connected(web, 1, posted(bearer, CHUNKED), b"1\r\n \r\n" * 100_000) as (client,):
        assert read_response(client).code() == "request_too_large"


def test_clients_that_do_not_close_delay_nobody(web: WebServer) -> None:
    started = time.monotonic()
    with connected(web, CLOSING_CLIENTS, request(b"/healthz", CLOSE)) as clients:
        assert {client.recv(12) for client in clients} == {b"HTTP/1.1 200"}
    assert time.monotonic() - started < SOON_SECONDS


def test_clients_that_do_not_read_are_disconnected(strict: WebServer, large_file: bytes) -> None:
    """Until then, each occupies a thread or is refused."""
    logged = strict.log.stat().st_size
    with connected(strict, THREADS, request(large_file)):
        assert seconds(lambda: strict.send(request(b"/healthz"))) < SEND_SECONDS + LATE_SECONDS
    assert b"Traceback" not in strict.log.read_bytes()[logged:]


def test_idle_connections_make_room_for_others(strict: WebServer, bearer: bytes) -> None:
    """The oldest idle connection is closed before descriptors run out."""
    assert strict.send(posted(bearer, LENGTH, body=BODY)).code() == "validation_failed"
    with connected(strict, 3 * CONNECTIONS) as clients:
        assert strict.send(request(b"/healthz")).status == 200
        assert not any(is_open(client) for client in clients[: 2 * CONNECTIONS])
    assert rejected(strict, "too_many_connections") >= 2 * CONNECTIONS


def worker_of(server: WebServer) -> int:
    """Return the worker process below gunicorn's main process."""
    pid = server.process.pid
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def test_a_closed_idle_connection_may_have_sent_data(strict: WebServer) -> None:
    """The server sees both events at once and ignores data of the closed connection."""
    worker = worker_of(strict)
    with connected(strict, CONNECTIONS - 1) as clients:
        clients[-1].sendall(request(b"/healthz"))
        assert read_response(clients[-1]).status == 200
        os.kill(worker, signal.SIGSTOP)
        try:
            with connected(strict, 1):
                for client in clients:
                    client.sendall(request(b"/healthz"))
                os.kill(worker, signal.SIGCONT)
                assert read_response(clients[-1]).status == 200
        finally:
            os.kill(worker, signal.SIGCONT)


def test_unfinished_bodies_have_a_total_limit(strict: WebServer, bearer: bytes) -> None:
    """The oldest unfinished body is aborted first."""
    size = SPOOLED_BYTES // 3
    sent = posted(bearer, b"Content-Length: %d" % (size + 1), body=b" " * size)
    with connected(strict, 4, sent) as clients:
        closed_after(clients[0], started=time.monotonic())
        assert all(is_open(client) for client in clients[1:])
        clients[-1].sendall(b" ")
        assert read_response(clients[-1]).code() == "invalid_json"
    assert rejected(strict, "too_many_bytes") == 1


def test_a_request_in_flight_is_answered_before_shutdown(web: WebServer, bearer: bytes, tmp_path: Path) -> None:
    with web_server(tmp_path / "log") as server, connected(server, 1, posted(bearer, LENGTH)) as (client,):
        assert server.send(request(b"/healthz")).status == 200
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        client.sendall(BODY)
        response = read_response(client)
        assert (response.code(), response.headers["Connection"]) == ("validation_failed", "close")
