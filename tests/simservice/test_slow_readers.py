"""Clients that request large files and do not read them, directly and through the proxy of deploy/Caddyfile."""

import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.http import FileResponse
from django.test import RequestFactory

from simservice.web import large_responses
from tests.caddy import CADDY, proxy
from tests.waiting import wait_until
from tests.web_server import WebServer, connected, request, web_server

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.xdist_group("web"), pytest.mark.timeout(180)]

READERS = 20
# Far longer than a request takes on a busy machine, and shorter than the 30 s that a thread waits for its client.
SOON_SECONDS = 15.0
CLOSE = b"Connection: close"


@pytest.fixture(scope="module")
def behind_proxy(
    web: WebServer, bearer: bytes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[WebServer, WebServer]]:
    """The proxy, as a server, and the web process behind it."""
    if not CADDY.exists():
        pytest.skip("needs Caddy")
    folder = tmp_path_factory.mktemp("proxy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRUSTED_PROXIES", "1")
        with web_server(folder / "web.log") as server, proxy(folder, [server.port], with_tls=False) as port:
            yield WebServer(port, folder / "caddy.log", server.process), server


def is_answered_soon(server: WebServer, path: bytes = b"/") -> bool:
    started = time.monotonic()
    return server.send(request(path, CLOSE)).status == 200 and time.monotonic() - started < SOON_SECONDS


def statuses(clients: Iterable[socket.socket]) -> list[bytes]:
    """Return the status of each response without reading more of it."""
    return [client.recv(12)[-3:] for client in clients]


def test_slow_readers_delay_nobody(web: WebServer, large_file: bytes) -> None:
    with connected(web, READERS, request(large_file, CLOSE)) as clients:
        assert is_answered_soon(web)
        answered = statuses(clients)
        assert answered.count(b"200") == settings.MAX_LARGE_RESPONSES * 3 // 4
        refused = clients[answered.index(b"503")]
        assert b"Retry-After: 5" in refused.recv(4096)


def test_slow_readers_of_static_files_delay_nobody(web: WebServer, bearer: bytes) -> None:
    for path in (b"/static/fonts/DejaVuSansCondensed.ttf", b"/v1/openapi.json"):
        with connected(web, READERS, request(path, CLOSE)):
            assert is_answered_soon(web)


def test_the_place_of_a_reader_that_leaves_is_free(web: WebServer, large_file: bytes) -> None:
    with connected(web, READERS, request(large_file, CLOSE)) as clients:
        statuses(clients)
    wait_until(lambda: web.send(request(large_file, b"Range: bytes=0-0", CLOSE)).status != 503)
    response = web.send(request(large_file, CLOSE))
    assert (response.status, len(response.body)) == (200, 24 << 20)


def test_an_address_leaves_a_place_to_others(behind_proxy: tuple[WebServer, WebServer], large_file: bytes) -> None:
    _, direct = behind_proxy
    with connected(direct, READERS, request(large_file, b"X-Forwarded-For: 192.0.2.1", CLOSE)) as clients:
        statuses(clients)
        for address, status in ((b"192.0.2.1", 503), (b"2001:db8::1", 200)):
            assert direct.send(request(large_file, b"X-Forwarded-For: " + address, CLOSE)).status == status


def test_slow_readers_behind_the_proxy_delay_nobody(
    behind_proxy: tuple[WebServer, WebServer], large_file: bytes
) -> None:
    public, _ = behind_proxy
    with connected(public, READERS, request(large_file, CLOSE)) as clients:
        assert is_answered_soon(public)
        assert b"503" in statuses(clients)


def test_the_proxy_holds_smaller_files_for_slow_readers(
    behind_proxy: tuple[WebServer, WebServer], large_file: bytes
) -> None:
    """The readers occupy no place, although none of them reads."""
    public, _ = behind_proxy
    with ExitStack() as stack:
        for _ in range(READERS):
            part = request(large_file, b"Range: bytes=0-500000", CLOSE)
            assert statuses(stack.enter_context(connected(public, 1, part))) == [b"206"]


@pytest.mark.parametrize("header", [b"SCRIPT_NAME: /x", b"PATH_INFO: /readyz", b"X-Y: z"])
def test_no_header_reaches_hidden_paths_through_the_proxy(
    behind_proxy: tuple[WebServer, WebServer], bearer: bytes, header: bytes
) -> None:
    public, _ = behind_proxy
    for path in (b"/readyz", b"/x/readyz", b"/metrics", b"/x/metrics", b"//readyz", b"/%72eadyz", b"/x/../readyz"):
        assert public.send(request(path, header, CLOSE)).status in (400, 404)


def test_a_reader_below_the_lowest_rate_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_responses, "GRACE_SECONDS", -2.0)
    monkeypatch.setattr(large_responses, "BYTES_PER_SECOND", 1.0)
    sent = large_responses._in_time([b"xy", b"z"])
    assert next(sent) == b"xy"
    with pytest.raises(ConnectionResetError):
        next(sent)


def test_a_refused_file_is_closed_with_its_refusal(settings: Any, tmp_path: Path, rf: RequestFactory) -> None:
    settings.MAX_LARGE_RESPONSES = 1
    opened = [(tmp_path / name).open("wb+") for name in ("first", "second")]
    files, asked = iter(opened), rf.get("/v1/x", REQUEST_ID="req_1")
    respond = large_responses.LargeResponsesMiddleware(lambda _request: FileResponse(next(files)))
    for file in opened:
        file.truncate(large_responses.LARGE_BYTES + 1)
    with closing(respond(asked)) as first, closing(respond(asked)) as second:
        assert (first.status_code, second.status_code) == (200, 503)
    assert all(file.closed for file in opened)
