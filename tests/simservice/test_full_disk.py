"""Request bodies while the disk of TMPDIR is full."""

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client as HttpClient

from tests.small_disk import fill, small_disk
from tests.web_server import Response, WebServer, read_response, request, web_server

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.xdist_group("web"), pytest.mark.timeout(180)]

JSON = b"Content-Type: application/json"
FRAMINGS = ["length", "chunks"]
BODY = b'{"build": 1}'.ljust(1 << 20)


@pytest.fixture
def filler(tmp_path: Path) -> Iterator[Path]:
    """A file that fills the disk of TMPDIR."""
    with small_disk(tmp_path / "disk", kib=4096) as disk:
        yield disk / "filler"


@pytest.fixture
def server(web: WebServer, filler: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    """A web server whose TMPDIR is full."""
    monkeypatch.setenv("TMPDIR", str(filler.parent))
    with web_server(tmp_path / "web.log") as started:
        # With its first temporary file, Python chooses another folder if the disk is full.
        assert started.send(request(b"/healthz")).status == 200
        fill(filler.parent)
        yield started


def posted(server: WebServer, bearer: bytes, framing: str) -> Response:
    """Submit a body that needs a temporary file."""
    headers = [b"Content-Length: %d" % len(BODY)] if framing == "length" else [b"Transfer-Encoding: chunked"]
    body = BODY if framing == "length" else b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    return server.send(request(b"/v1/sim/jobs", bearer, JSON, *headers, method=b"POST", body=body))


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_large_body_is_refused(server: WebServer, bearer: bytes, filler: Path, framing: str) -> None:
    response = posted(server, bearer, framing)
    assert (response.status, response.code()) == (503, "queue_unavailable")
    assert response.json()["meta"] == {"reason": "disk_full", "queueHealth": "ok"}
    assert (response.headers["Retry-After"], response.headers["Connection"]) == ("10", "close")
    assert b"was not stored in TMPDIR" in server.log.read_bytes()
    filler.unlink()
    assert posted(server, bearer, framing).code() == "validation_failed"


def test_a_refused_body_ends_its_connection_only(server: WebServer, bearer: bytes) -> None:
    sent = request(b"/v1/sim/jobs", bearer, JSON, b"Content-Length: 9000000", method=b"POST", body=BODY)
    with server.connection() as client:
        client.sendall(sent)
        assert read_response(client).code() == "queue_unavailable"
        assert client.recv(1) == b""
        assert server.send(request(b"/healthz")).status == 200


def test_small_bodies_need_no_disk(server: WebServer, bearer: bytes) -> None:
    sent = request(b"/v1/sim/jobs", bearer, JSON, b"Content-Length: 2", method=b"POST", body=b"{}")
    assert server.send(sent).code() == "validation_failed"


def test_uploads_in_forms_need_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    response = HttpClient().post("/accounts/login/", {"login": "a", "file": io.BytesIO(bytes(3 << 20))})
    assert response.status_code == 200
