"""Messages of the MCP protocol at /mcp (docs/reference/mcp.md#transport)."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.jobs.mcp.conftest import SUBMISSION, Mcp
from tests.stack import ROOT

pytestmark = pytest.mark.django_db

INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def test_the_server_agrees_on_a_version_and_offers_tools_and_tasks(mcp: Mcp) -> None:
    found = mcp.result("initialize", INITIALIZE)
    assert found["protocolVersion"] == "2025-11-25"
    assert found["capabilities"]["tools"] == {}
    assert found["capabilities"]["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert "check" in found["instructions"]


@pytest.mark.parametrize(("asked", "agreed"), [("2025-03-26", "2025-03-26"), ("1999-01-01", "2025-11-25")])
def test_an_unknown_version_becomes_the_latest_one(mcp: Mcp, asked: str, agreed: str) -> None:
    assert mcp.result("initialize", {**INITIALIZE, "protocolVersion": asked})["protocolVersion"] == agreed


def test_ping_gets_an_empty_result(mcp: Mcp) -> None:
    assert mcp.result("ping") == {}


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "method": "notifications/of-the-future"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ],
)
def test_notifications_and_responses_are_accepted_without_an_answer(mcp: Mcp, message: Any) -> None:
    response = mcp.post(message)
    assert (response.status_code, response.content) == (202, b"")


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "7",
        "{}",
        json.dumps([{"jsonrpc": "2.0", "id": 1, "method": "ping"}]),
        json.dumps({"jsonrpc": "1.0", "id": 1, "method": "ping"}),
        json.dumps({"jsonrpc": "2.0", "id": None, "method": "ping"}),
        json.dumps({"jsonrpc": "2.0", "id": True, "method": "ping"}),
        json.dumps({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}),
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": 7}),
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}),
    ],
)
def test_what_is_no_message_is_refused(mcp: Mcp, body: str) -> None:
    response = mcp.post(body)
    assert (response.status_code, response.json()["code"]) == (400, "validation_failed")


@pytest.mark.parametrize("body", ["{", '{"a": NaN}'])
def test_what_is_no_json_is_refused(mcp: Mcp, body: str) -> None:
    response = mcp.post(body)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_json")


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("resources/list", None, -32601),
        ("\ud800", None, -32601),
        ("initialize", {}, -32602),
        ("tools/call", None, -32602),
        ("tools/call", {"name": 7}, -32602),
        ("tools/call", {"name": "\ud800"}, -32602),
        ("tools/call", {"name": "check", "arguments": []}, -32602),
        ("tools/call", {"name": "none"}, -32602),
        ("tools/call", {"name": "wait", "arguments": {}, "task": {}}, -32601),
        ("tasks/get", {}, -32602),
        ("tasks/get", {"taskId": 7}, -32602),
        ("tasks/list", {"cursor": 7}, -32602),
    ],
)
def test_a_wrong_request_gets_an_error_of_the_protocol(mcp: Mcp, method: str, params: Any, code: int) -> None:
    assert mcp.error(method, params)[0] == code


def test_only_post_is_supported(mcp: Mcp) -> None:
    for method in ("get", "delete", "put", "patch", "options", "head"):
        response = getattr(mcp.http, method)("/mcp")
        assert response.status_code == 405
        assert response.headers["Allow"] == "POST"


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"origin": "https://evil.example"}, 403, "origin_not_allowed"),
        ({"origin": "null"}, 403, "origin_not_allowed"),
        ({"mcp-protocol-version": "1999-01-01"}, 400, "validation_failed"),
        ({"content-type": "text/plain"}, 415, "unsupported_media_type"),
        ({"content-encoding": "gzip"}, 415, "unsupported_media_type"),
    ],
)
def test_headers_are_checked(mcp: Mcp, headers: dict[str, str], status: int, code: str) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    response = mcp.post(body, content_type=headers.get("content-type", "application/json"), headers=headers)
    assert (response.status_code, response.json()["code"]) == (status, code)


def test_the_services_own_pages_may_send_messages(mcp: Mcp) -> None:
    headers = {"origin": "http://testserver", "mcp-protocol-version": "2025-06-18", "mcp-session-id": "any"}
    assert mcp.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=headers).status_code == 200


def test_a_query_is_refused(mcp: Mcp) -> None:
    response = mcp.http.post("/mcp?x=1", {}, content_type="application/json")
    assert response.json()["code"] == "validation_failed"


def test_maintenance_refuses_messages(mcp: Mcp, settings: Any) -> None:
    settings.MAINTENANCE_SECONDS = 60
    response = mcp.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert (response.status_code, response.json()["code"]) == (503, "api_maintenance")


def test_a_profile_with_any_characters_is_answered(mcp: Mcp) -> None:
    for text in ("\ud800", "\0", 'mage="\N{SNOWMAN}"\n', "x" * (2 << 20), "\N{GRINNING FACE}" * 1000):
        mcp.result("tools/call", {"name": "check", "arguments": {**SUBMISSION, "profile": text}})
    error = mcp.refusal("check", **{**SUBMISSION, "profile": "x" * ((2 << 20) + 1)})
    assert error["code"] == "profile_too_large"


LOADED = """
import sys
import django
django.setup()
from django.urls import get_resolver
get_resolver().url_patterns
sys.exit("mcp" in sys.modules)
"""


def test_the_package_is_loaded_only_for_messages() -> None:
    assert subprocess.run([sys.executable, "-c", LOADED], cwd=ROOT, check=False).returncode == 0
