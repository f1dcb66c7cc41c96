"""One request to receivers that answer in every way there is, each over real TLS."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from pytest_django import Settings

from localstack.redis_server import free_port
from tests.webhooks.receivers import Receiver
from webhooks import sending
from webhooks.sending import Answer, send

HEADERS = {"X-Service-Event-Id": "evt_1", "Content-Type": "application/json"}


def post(url: str) -> Answer:
    return send(url, HEADERS, b'{"kind": "job.terminal"}')


def test_everything_together_may_take_ten_seconds() -> None:
    assert sending.TIMEOUT_SECONDS == 10


@pytest.mark.parametrize("status", [200, 201, 204, 299, 301, 302, 304, 400, 404, 408, 410, 429, 500, 503, 599])
def test_a_status_is_brought_back(status: int, receiver: Receiver) -> None:
    answer = post(receiver.url(f"/{status}"))
    assert (answer.status, answer.problem, answer.address) == (status, "", "127.0.0.1")
    assert len(receiver.received) == 1


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    assert post(receiver.url("/301")).status == 301
    assert [request.path for request in receiver.received] == ["/301"]


def test_the_request_is_what_was_signed(receiver: Receiver) -> None:
    assert post(receiver.url("/200?key=value")).status == 200
    (request,) = receiver.received
    assert request.body == b'{"kind": "job.terminal"}'
    assert (request.path, request.headers["Host"]) == ("/200?key=value", receiver.address)
    assert HEADERS.items() <= request.headers.items()


@pytest.mark.parametrize("path", ["/silence", "/drip", "/drip-headers"])
def test_what_takes_too_long_is_cut_off(path: str, receiver: Receiver, short: None) -> None:
    started = time.monotonic()
    answer = post(receiver.url(path))
    assert answer.problem == "timeout"
    assert 0.4 <= time.monotonic() - started < 5
    assert 400 <= answer.duration_ms < 5000


def test_an_answer_whose_body_never_ends_is_none(receiver: Receiver, short: None) -> None:
    answer = post(receiver.url("/drip"))
    assert (answer.status, answer.problem) == (200, "timeout")


@pytest.mark.parametrize(("path", "problem"), [("/reset", "connection"), ("/hang-up", "connection")])
def test_a_broken_connection_is_told(path: str, problem: str, receiver: Receiver) -> None:
    answer = post(receiver.url(path))
    assert (answer.status, answer.problem) == (None, problem)


def test_a_body_that_breaks_off_leaves_the_status_standing(receiver: Receiver) -> None:
    answer = post(receiver.url("/half"))
    assert (answer.status, answer.problem) == (200, "")


def test_of_a_huge_body_the_beginning_is_read(receiver: Receiver) -> None:
    answer = post(receiver.url("/huge"))
    assert (answer.status, len(answer.body), answer.problem) == (200, 64 * 1024, "")


@pytest.mark.parametrize("path", ["/nonsense", "/continue", "/103"])
def test_what_is_no_answer_is_told(path: str, receiver: Receiver) -> None:
    answer = post(receiver.url(path))
    assert (answer.status, answer.problem) == (None, "protocol")


def test_retry_after_is_brought_back(receiver: Receiver) -> None:
    assert post(receiver.url("/429")).retry_after == "20"


def test_a_receiver_must_prove_its_name(receiver: Receiver, settings: Settings) -> None:
    settings.WEBHOOK_ALLOWED_ADDRESSES = [f"localhost.localdomain:{receiver.port}", f"127.0.0.2:{receiver.port}"]
    answer = post(f"https://127.0.0.2:{receiver.port}/200")
    # Nothing listens there but for the name that is certified.
    assert answer.problem == "connection"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sending, "look_up", lambda *_, **__: ["127.0.0.1"])
        answer = post(f"https://localhost.localdomain:{receiver.port}/200")
    assert (answer.problem, receiver.received) == ("tls", [])
    assert "Hostname mismatch" in answer.detail


def test_a_receiver_must_be_certified_by_somebody_known(receiver: Receiver, settings: Settings) -> None:
    settings.WEBHOOK_CA_FILE = ""
    answer = post(receiver.url())
    assert (answer.problem, receiver.received) == ("tls", [])


@pytest.fixture
def listener(settings: Settings) -> Iterator[Callable[[Callable[[socket.socket], Any]], str]]:
    """Make servers without TLS; each does something with every connection."""
    listening = []

    def listen(behave: Callable[[socket.socket], Any]) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        listening.append(server)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        settings.WEBHOOK_ALLOWED_ADDRESSES = [address]

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                behave(connection)

        threading.Thread(target=serve, daemon=True).start()
        return f"https://{address}/"

    yield listen
    for server in listening:
        server.close()


def test_plain_http_gets_nothing(listener: Any) -> None:
    taken = bytearray()

    def answer_plainly(connection: socket.socket) -> None:
        taken.extend(connection.recv(4096))
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

    answer = post(listener(answer_plainly))
    assert (answer.status, answer.problem) == (None, "tls")
    assert b"job.terminal" not in taken


def test_a_handshake_that_hangs_is_cut_off(listener: Any, short: None) -> None:
    assert post(listener(lambda _: time.sleep(0.6))).problem == "timeout"


def test_where_nobody_listens_there_is_no_connection(settings: Settings) -> None:
    port = free_port()
    settings.WEBHOOK_ALLOWED_ADDRESSES = [f"127.0.0.1:{port}"]
    answer = post(f"https://127.0.0.1:{port}/")
    assert (answer.problem, answer.detail) == ("connection", "No connection: Connection refused.")


def test_a_resolver_that_hangs_is_left_behind(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, short: None
) -> None:
    woken = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [][: woken.wait(9)])
    started = time.monotonic()
    assert post(receiver.url()).problem == "dns"
    assert time.monotonic() - started < 5
    woken.set()


def test_a_name_without_an_address_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def know_nothing(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", know_nothing)
    answer = post("https://hooks.nowhere.com/")
    assert (answer.problem, answer.detail) == ("dns", "The name hooks.nowhere.com does not lead to any address.")


def test_the_next_address_is_tried_when_one_does_not_answer(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "look_up", lambda *_, **__: ["::1", "127.0.0.3", "127.0.0.1"])
    answer = post(receiver.url())
    assert (answer.status, answer.address) == (200, "127.0.0.1")


def test_proxies_of_the_environment_are_not_asked(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    assert post(receiver.url()).status == 200


def test_an_answer_of_any_bytes_raises_nothing(receiver: Receiver, short: None) -> None:
    random = Random(8)  # noqa: S311
    pieces = [
        b"HTTP/1.1 ",
        b"200",
        b" OK\r\n",
        b"\r\n",
        b"Content-Length: ",
        b"-1",
        b"9" * 30,
        b"\xff\0",
        b": ",
        b"\n",
    ]
    pieces += [b"Transfer-Encoding: chunked\r\n", b"Retry-After: \xe9\r\n", b"HTTP/9.9 99999\r\n", b"a" * 70_000]
    for _ in range(150):
        content = b"".join(random.choices(pieces, k=random.randrange(12)))

        def talk(request: Any, content: bytes = content) -> None:
            request.wfile.write(content)

        receiver.answers["/any"] = talk
        answer = post(receiver.url("/any"))
        assert answer.status is not None or answer.problem
