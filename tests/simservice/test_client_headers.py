"""Headers with which a client could choose the path, the scheme, the host or the user of its request."""

import pytest

from tests.web_server import WebServer, request

pytestmark = [pytest.mark.django_db, pytest.mark.xdist_group("web")]

# Each spelling of a header becomes the same key of the WSGI environment, or a similar one.
PATHS = [b"SCRIPT_NAME: /x", b"script_name: /x", b"SCRIPT-NAME: /x", b"PATH_INFO: /readyz", b"PATH-INFO: /readyz"]
SCHEMES = [
    b"X-Forwarded-Proto: https",
    b"X_Forwarded_Proto: https",
    b"X-Forwarded-Protocol: ssl",
    b"X-Forwarded-Ssl: on",
    b"Forwarded: proto=https;host=evil.example",
    b"wsgi.url_scheme: https",
]
HOSTS = [b"X-Forwarded-Host: evil.example", b"HTTP_HOST: evil.example", b"X_Forwarded_Host: evil.example"]
USERS = [b"REMOTE_USER: admin", b"Remote-User: admin", b"X-Remote-User: admin"]
JSON = b"Accept: application/json"


@pytest.mark.parametrize("header", PATHS)
@pytest.mark.parametrize("path", [b"/x/readyz", b"/x/metrics", b"/x/v1/openapi.json", b"/x/healthz"])
def test_no_header_moves_a_request_to_another_path(web: WebServer, header: bytes, path: bytes) -> None:
    assert web.send(request(path, header, JSON)).code() == "not_found"


@pytest.mark.parametrize("header", [b"X-Y: z", *PATHS])
def test_no_header_bypasses_maintenance(maintained: WebServer, bearer: bytes, header: bytes) -> None:
    for path, code in ((b"/v1/sim/jobs", "api_maintenance"), (b"/x/v1/sim/jobs", "not_found")):
        assert maintained.send(request(path, header, bearer, JSON, method=b"POST")).code() == code


@pytest.mark.parametrize("header", [*SCHEMES, *HOSTS])
def test_no_header_sets_the_scheme_or_host_of_links(web: WebServer, header: bytes) -> None:
    message = web.send(request(b"/nowhere", header, JSON)).json()["error"]
    assert "http://localhost/v1/sim/" in message


@pytest.mark.parametrize("header", USERS)
def test_no_header_logs_a_user_in(web: WebServer, header: bytes) -> None:
    assert web.send(request(b"/dashboard/", header)).status == 302
