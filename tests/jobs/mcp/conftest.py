"""An MCP client without a network, which validates every structured result."""

import json
from collections.abc import Mapping
from typing import Any

import jsonschema
import pytest
from django.test import Client as HttpClient

from clients.models import ApiKey
from jobs.mcp.tools import TOOLS, output_schema
from tests.factories import PROFILE, BuildFactory

SUBMISSION = {"profile": PROFILE, "channel": "latest"}


class Mcp:
    """A client of the MCP server with one key."""

    def __init__(self, secret: str) -> None:
        self.http = HttpClient(headers={"authorization": f"Bearer {secret}"})

    def post(self, message: Any, **kwargs: Any) -> Any:
        """Send a message, or any other body, and return the response."""
        return self.http.post("/mcp", message, **{"content_type": "application/json"} | kwargs)

    def answer(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and return its response, a result or an error."""
        message = {"jsonrpc": "2.0", "id": 7, "method": method, **({} if params is None else {"params": params})}
        response = self.post(message)
        assert response.status_code == 200, response.content
        body: dict[str, Any] = response.json()
        assert (body["jsonrpc"], body["id"]) == ("2.0", 7)
        return body

    def result(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = self.answer(method, params)["result"]
        return result

    def error(self, method: str, params: Mapping[str, Any] | None = None) -> tuple[int, str]:
        """Return the code of a request's error, and that of the service."""
        error = self.answer(method, params)["error"]
        return error["code"], (error.get("data") or {}).get("code", "")

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Call a tool and return its structured result, which must be valid against its schema."""
        result = self.result("tools/call", {"name": name, "arguments": arguments})
        assert not result["isError"], result
        return checked(name, result)

    def refusal(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return the error in its result."""
        result = self.result("tools/call", {"name": name, "arguments": arguments})
        assert result["isError"]
        assert "structuredContent" not in result
        error: dict[str, Any] = json_of(result)
        assert {"error", "code", "meta", "requestId"} <= error.keys()
        return error


def json_of(result: dict[str, Any]) -> Any:
    """Return the value of a result's only text."""
    (content,) = result["content"]
    assert content["type"] == "text"
    return json.loads(content["text"])


def checked(name: str, result: dict[str, Any]) -> Any:
    """Return the structured content of a tool's result, which must be valid, and the same as the text."""
    content = result["structuredContent"]
    jsonschema.validate(content, output_schema(TOOLS[name].returns), jsonschema.Draft202012Validator)
    assert json_of(result) == content
    return content


@pytest.fixture
def mcp(key: tuple[ApiKey, str]) -> Mcp:
    return Mcp(key[1])


@pytest.fixture
def build(db: None) -> Any:
    """A build that can run jobs."""
    return BuildFactory.create()
