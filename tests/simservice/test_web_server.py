"""The real web server's responses to invalid requests: the error envelope, never HTML or a 500."""

import json
import time

import pytest
from pytest_django import DjangoDbBlocker

from simservice.body_limit import MAX_BODY_BYTES
from simservice.web.gunicorn_worker import error_for
from tests.factories import make_account, make_key
from tests.simservice.malformed_requests import CHUNKED, JOBS, JSON, MEDIA_TYPES, NOT_HTTP, TOO_LARGE
from tests.web_server import REQUEST_ID, Response, WebServer, read_response, request

# All tests share one server, so they run in one test process.
pytestmark = [pytest.mark.django_db, pytest.mark.xdist_group("web"), pytest.mark.timeout(180)]
JOB = JOBS + b"/123456789012345678"


def shortened(value: object) -> str:
    """Return a parameter's test id."""
    return str(value)[:40]


def test_the_server_answers(web: WebServer) -> None:
    assert web.send(request(b"/healthz")).json() == {"status": "ok"}


@pytest.mark.parametrize("sent", NOT_HTTP.values(), ids=NOT_HTTP)
def test_invalid_http_is_rejected_with_the_envelope(web: WebServer, sent: bytes) -> None:
    response = web.send(sent, and_close=True)
    assert (response.status, response.code()) == (400, "validation_failed")
    assert response.json()["meta"]["issues"][0].keys() == {"path", "message"}


@pytest.mark.parametrize("sent", TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_request_head_over_the_limits_returns_413(web: WebServer, sent: bytes) -> None:
    response = web.send(sent)
    assert (response.status, response.code()) == (413, "request_too_large")


def test_a_bug_of_the_server_is_an_internal_error() -> None:
    assert error_for(ValueError("of ours")).code == "internal_error"


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (request(b"/v1/%00"), 404, "not_found"),
        (request(JOBS + b"/%00%0a"), 401, "missing_token"),
        (request(b"/v1/%zz%"), 404, "not_found"),
        (request(b"/v1/%ff%fe"), 404, "not_found"),
        (request(b"//v1/sim/jobs"), 404, "not_found"),
        (request(b"///v1/sim/jobs"), 404, "not_found"),
        (request(b"/v1//sim/jobs"), 404, "not_found"),
        (request(JOBS + b"/"), 404, "not_found"),
        (request(b"/v1/sim/../sim/jobs"), 404, "not_found"),
        (request(b"/v1/" + b"x" * 4000), 404, "not_found"),
        (request(b"/artifacts/%00"), 404, "not_found"),
        (request(b"/artifacts/" + b"x" * 22), 404, "not_found"),
        (request(b"/manifests/%c3%28"), 404, "not_found"),
        (request(b"http://localhost/v1/nowhere"), 404, "not_found"),
        (request(b"/artifacts/" + b"x" * 22, method=b"DELETE"), 405, "method_not_allowed"),
        (request(b"/manifests/" + b"x" * 22, method=b"FOO"), 405, "method_not_allowed"),
        (request(JOB, method=b"TRACE"), 401, "missing_token"),
        (b"GET /v1/nowhere HTTP/1.1\r\nHost: evil.example\r\n\r\n", 400, "validation_failed"),
        (b"GET /v1/nowhere HTTP/1.1\r\nHost: a b\xff\r\n\r\n", 400, "validation_failed"),
        (b"GET /v1/nowhere HTTP/1.1\r\n\r\n", 404, "not_found"),
        (b"GET /v1/nowhere HTTP/1.0\r\nHost: localhost\r\n\r\n", 404, "not_found"),
    ],
    ids=shortened,
)
def test_unusual_paths_and_hosts_get_an_error_response(web: WebServer, sent: bytes, status: int, code: str) -> None:
    response = web.send(sent)
    assert (response.status, response.code()) == (status, code)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([b"Authorization: Bearer \xc3\xa9"], "invalid_token"),
        ([b"Authorization: \xff"], "missing_token"),
        ([b"Authorization: Bearer a", b"Authorization: Bearer b"], "invalid_token"),
        ([b"Authorization: Bearer " + b"x" * 8000], "invalid_token"),
        ([b"Authorization:"], "missing_token"),
    ],
    ids=shortened,
)
def test_unusual_credentials_get_an_error_response(web: WebServer, headers: list[bytes], code: str) -> None:
    response = web.send(request(JOB, *headers))
    assert (response.status, response.code()) == (401, code)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        (b"a=1&" * 1001, "validation_failed"),
        (b"limit=%00", "validation_failed"),
        (b"limit=%ff", "validation_failed"),
        (b"limit=1;x", "validation_failed"),
        (b"%zz", "validation_failed"),
        (b"format=html", "validation_failed"),
        (b"_method=DELETE", "validation_failed"),
        (b"cursor=%22", "invalid_cursor"),
    ],
    ids=shortened,
)
def test_unusual_queries_get_an_error_response(web: WebServer, bearer: bytes, query: bytes, code: str) -> None:
    response = web.send(request(JOBS + b"?" + query, bearer))
    assert (response.status, response.code()) == (400, code)


def test_two_credentials_are_rejected(web: WebServer, bearer: bytes) -> None:
    assert web.send(request(JOB, bearer)).code() == "not_found"
    assert web.send(request(JOB, bearer, bearer)).code() == "invalid_token"


def posted(web: WebServer, bearer: bytes, body: bytes, *headers: bytes, and_close: bool = False) -> Response:
    """Send a body to the submission endpoint; add its length with `with_length`."""
    return web.send(request(JOBS, bearer, *headers, method=b"POST"), body, and_close=and_close)


def with_length(body: bytes) -> bytes:
    return b"Content-Length: %d" % len(body)


@pytest.mark.parametrize("media_type", MEDIA_TYPES, ids=shortened)
def test_other_media_types_are_rejected(web: WebServer, bearer: bytes, media_type: bytes) -> None:
    body = b"_method=GET&_content=%7B%7D"
    response = posted(web, bearer, body, b"Content-Type: " + media_type, with_length(body))
    assert (response.status, response.code()) == (415, "unsupported_media_type")


@pytest.mark.parametrize("media_type", MEDIA_TYPES, ids=shortened)
def test_a_request_without_a_body_may_have_any_content_type(
    web: WebServer, bearer: bytes, media_type: bytes
) -> None:
    response = web.send(request(JOB + b"/status?include=logEntries", bearer, b"Content-Type: " + media_type))
    assert (response.status, response.code()) == (404, "not_found")


@pytest.mark.parametrize(
    "headers",
    [
        [b"Accept: text/html"],
        [b"Accept: \xff;q=x"],
        [b"X-HTTP-Method-Override: DELETE"],
        [b"X-Forwarded-Proto: gopher"],
        [b"X-Forwarded-Host: \xff"],
        [b"Cookie: sessionid=\xff; csrftoken=x"],
        [b"Range: bytes=0-"],
        [b"If-None-Match: *"],
        [b"Upgrade: h2c", b"Connection: Upgrade, HTTP2-Settings", b"HTTP2-Settings: AAMAAABkAAQAAP__"],
        [b"Expect: 100-continue"],
        [b"X_Y: z"],
        [b"SCRIPT_NAME: /elsewhere"],
        [b"X-Y: " + b"x" * 8000],
        [b"X-Y: \xff\xfe"],
    ],
    ids=shortened,
)
def test_unusual_headers_are_ignored(web: WebServer, bearer: bytes, headers: list[bytes]) -> None:
    response = web.send(request(JOB, bearer, *headers))
    assert (response.status, response.code()) == (404, "not_found")


def test_a_head_request_returns_only_headers(web: WebServer, bearer: bytes) -> None:
    sent = request(JOB, bearer, b"Connection: close", method=b"HEAD")
    with web.connection() as connection:
        connection.sendall(sent)
        text = connection.makefile("rb").read()
    head, _, rest = text.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 404 ")
    assert REQUEST_ID.search(head.decode())
    assert rest == b""


@pytest.mark.parametrize("method", [b"PUT", b"DELETE", b"TRACE", b"FOO", b"OPTIONS"], ids=shortened)
def test_other_methods_are_rejected(web: WebServer, bearer: bytes, method: bytes) -> None:
    response = web.send(request(JOB, bearer, method=method))
    assert (response.status, response.code(), response.headers["Allow"]) == (405, "method_not_allowed", "GET, HEAD")


def chunks(body: bytes, size: int = 1 << 16) -> bytes:
    """Return a body in chunks."""
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def submission(padding: int = 0) -> bytes:
    """Return a submission with an invalid channel, padded with spaces to a number of bytes."""
    return json.dumps({"build": {"channel": "no such"}, "profile": {"text": ""}}).encode().ljust(padding)


@pytest.mark.parametrize("size", [1, 100, 1 << 20], ids=shortened)
def test_chunked_bodies_are_read(web: WebServer, bearer: bytes, size: int) -> None:
    response = posted(web, bearer, chunks(submission(), size), JSON, CHUNKED)
    assert (response.status, response.code()) == (400, "validation_failed")
    assert [issue["path"] for issue in response.json()["meta"]["issues"]] == ["build.channel"]


def test_a_chunked_body_leaves_the_connection_usable(web: WebServer, bearer: bytes) -> None:
    first = request(JOBS, bearer, JSON, CHUNKED, method=b"POST") + chunks(submission())
    with web.connection() as connection:
        connection.sendall(first)
        assert read_response(connection).code() == "validation_failed"
        connection.sendall(request(b"/healthz"))
        assert read_response(connection).status == 200


@pytest.mark.parametrize(
    ("over", "status", "code"), [(0, 400, "validation_failed"), (1, 413, "request_too_large")], ids=shortened
)
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
def test_bodies_are_accepted_up_to_the_limit(
    web: WebServer, bearer: bytes, over: int, status: int, code: str, *, chunked: bool
) -> None:
    body = submission(MAX_BODY_BYTES + over)
    if chunked:
        response = posted(web, bearer, chunks(body), JSON, CHUNKED)
    else:
        response = posted(web, bearer, body, JSON, with_length(body))
    assert (response.status, response.code()) == (status, code)


@pytest.fixture(scope="module")
def slow_bearers(bearer: bytes, django_db_blocker: DjangoDbBlocker) -> list[bytes]:
    """The credentials of two accounts with 5 MB per minute; deleted with `bearer`."""
    with django_db_blocker.unblock():
        secrets = [make_key(make_account(submission_bytes_per_minute=5 << 20))[1] for _ in range(2)]
    return [f"Authorization: Bearer {secret}".encode() for secret in secrets]


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
def test_the_byte_limit_counts_all_bytes_sent(web: WebServer, slow_bearers: list[bytes], *, chunked: bool) -> None:
    body, text = bytes(3 << 20), b"Content-Type: text/plain"  # more than is read of plain text
    sent = (chunks(body), text, CHUNKED) if chunked else (body, text, with_length(body))
    codes = [posted(web, slow_bearers[chunked], *sent).code() for _ in range(2)]
    assert codes == ["request_too_large", "rate_limit_exceeded"]


@pytest.mark.parametrize("framing", [CHUNKED, b"Content-Length: 9000000000000"], ids=["chunks", "length"])
def test_an_endless_body_is_rejected_while_it_arrives(web: WebServer, bearer: bytes, framing: bytes) -> None:
    start = b"8fffffff\r\n" if framing == CHUNKED else b""
    response = posted(web, bearer, start + bytes(MAX_BODY_BYTES + 4096), JSON, framing)
    assert (response.status, response.code()) == (413, "request_too_large")


@pytest.mark.parametrize(
    "body",
    [
        b"zz\r\n{}\r\n0\r\n\r\n",
        b"-2\r\n{}\r\n0\r\n\r\n",
        b"\r\n\r\n",
        b"2\r\n{}0\r\n\r\n",
        b"2;\x00\r\n{}\r\n0\r\n\r\n",
        b"2\r\n{}\r\n0\r\nContent-Length: 9\r\n\r\n",
        b"f" * 9000,
        b"2\r\n{",
        b"2\r\n{}\r\n",
        b"",
    ],
    ids=shortened,
)
def test_malformed_chunks_are_rejected(web: WebServer, bearer: bytes, body: bytes) -> None:
    response = posted(web, bearer, body, JSON, CHUNKED, and_close=True)
    assert (response.status, response.code()) == (400, "validation_failed")
    assert "not valid HTTP/1.1" in str(response.json())


@pytest.mark.parametrize("media_type", [JSON, b"Content-Type: text/plain"])
def test_a_body_shorter_than_its_length_is_rejected(web: WebServer, bearer: bytes, media_type: bytes) -> None:
    """The first half of a profile must not become a job."""
    half = request(
        JOBS + b"?channel=latest", bearer, media_type, b"Content-Length: 100", method=b"POST", body=b"mage=A\n"
    )
    response = web.send(half, and_close=True)
    assert (response.status, response.code()) == (400, "validation_failed")
    assert web.send(request(JOBS, bearer)).json()["jobs"] == []


def test_a_client_can_wait_for_100_continue(web: WebServer, bearer: bytes) -> None:
    body = submission()
    head = request(JOBS, bearer, JSON, with_length(body), b"Expect: 100-continue", method=b"POST")
    with web.connection() as connection:
        connection.sendall(head)
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert read_response(connection).code() == "validation_failed"


def test_clients_that_disconnect_cause_no_traceback(web: WebServer, bearer: bytes) -> None:
    logged = web.log.stat().st_size
    for framing in (CHUNKED, b"Content-Length: 100"):
        with web.connection() as connection:
            connection.sendall(request(JOBS, bearer, JSON, framing, method=b"POST") + b"5\r\n")
    with web.connection() as connection:
        connection.sendall(b"GET /v1")
    # The server reads them in other threads.
    time.sleep(0.5)
    assert web.send(request(b"/healthz")).status == 200
    assert b"Traceback" not in web.log.read_bytes()[logged:]


def test_a_form_over_the_limit_is_not_read_to_its_end(web: WebServer) -> None:
    form = b"Content-Type: application/x-www-form-urlencoded"
    cookie = b"Cookie: csrftoken=" + b"a" * 32
    sent = request(b"/admin/login/", form, cookie, b"Content-Length: 9000000000000", method=b"POST")
    assert web.send(sent, b"a" * (MAX_BODY_BYTES + 4096)).status == 413
