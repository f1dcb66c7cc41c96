"""The OpenAPI document is complete, matches its own schemas and is committed."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import path
from drf_spectacular.drainage import GENERATOR_STATS
from jsonschema import Draft202012Validator, FormatChecker
from pytest_django import Settings
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

import jobs.api.errors  # noqa: F401  registers the errors of jobs
from simservice.api.errors import envelope_of, example_of, family
from simservice.api.openapi import DocumentGenerator, document

COMMAND = [sys.executable, "manage.py", "openapi", "--check"]


def operations() -> Iterator[Any]:
    for methods in document()["paths"].values():
        yield from methods.values()


def contents(operation: Any) -> Iterator[Any]:
    """Yield the Media Type Objects of a request and its responses."""
    for part in [operation.get("requestBody", {}), *operation["responses"].values()]:
        yield from part.get("content", {}).values()


def examples_of(content: Any) -> list[Any]:
    """Return the example values of a body, with references resolved."""
    known = document()["components"]["examples"]
    named = content.get("examples", {}).values()
    values = [known[example["$ref"].split("/")[-1]] if "$ref" in example else example for example in named]
    return [example["value"] for example in values] + ([content["example"]] if "example" in content else [])


def validate(value: Any, schema: Any) -> None:
    whole = {**schema, "components": document()["components"]}
    Draft202012Validator(whole, format_checker=FormatChecker()).validate(json.loads(json.dumps(value)))


def test_the_document_is_generated_without_warnings() -> None:
    assert document()["openapi"].startswith("3.1")
    assert not GENERATOR_STATS


def test_an_undocumented_view_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    class Silent(APIView):
        def get(self, request: Request) -> Response:  # noqa: ARG002
            return Response()

    make: Any = DocumentGenerator
    generator = make(patterns=[path("v1/silent", Silent.as_view())])
    assert "/v1/silent" not in generator.get_schema(public=True)["paths"]
    assert GENERATOR_STATS
    assert "GET /v1/silent is not documented" in capsys.readouterr().err
    GENERATOR_STATS.reset()


def test_every_body_has_examples_that_match_its_schema() -> None:
    for operation in operations():
        assert any(contents(operation)), operation["operationId"]
        for content in contents(operation):
            assert examples_of(content), operation["operationId"]
            for example in examples_of(content):
                validate(example, content["schema"])


def test_parameter_examples_match_their_schemas() -> None:
    for operation in operations():
        for parameter in operation.get("parameters", []):
            validate(parameter["example"], parameter["schema"])


def test_webhook_examples_match_their_schemas() -> None:
    webhook = document()["webhooks"]["job.terminal"]["post"]
    (body,) = contents({"responses": {}, **webhook})
    assert examples_of(body)
    for example in examples_of(body):
        validate(example, body["schema"])
    for header in webhook["parameters"]:
        validate(header["example"], header["schema"])


def test_every_error_has_an_example() -> None:
    codes = {error.code for error in family()}
    assert set(document()["components"]["examples"]) == codes
    used = {code for operation in operations() for body in contents(operation) for code in body.get("examples", {})}
    # The document lists neither unsupported methods nor `/mcp`.
    assert codes - used == {"method_not_allowed", "origin_not_allowed"}


@pytest.mark.parametrize("error", list(family()), ids=lambda error: error.code)
def test_examples_of_documented_errors_link_to_the_docs(error: Any) -> None:
    envelope = envelope_of(error)
    assert envelope["error"] == example_of(error).message
    assert not error.documented or envelope["meta"]["docsUrl"].endswith(f"/docs/errors#{error.code}")


def test_a_partial_artifact_has_a_body() -> None:
    responses = document()["paths"]["/artifacts/{token}"]["get"]["responses"]
    assert responses["206"]["content"].keys() == responses["200"]["content"].keys()
    assert "Content-Range" in responses["206"]["headers"]


def test_the_update_time_of_a_job_is_described() -> None:
    described = document()["components"]["schemas"]["JobStatus"]["properties"]["updatedAt"]
    assert "Progress does not change it" in described["description"]


def test_the_table_of_rate_limits_is_complete() -> None:
    text = (settings.BASE_DIR / "docs/reference/limits.md").read_text()
    for limit in ("submissions", "bytes", "checks", "checked_bytes", "reads", "storage", "public", "forms"):
        assert f"\n| `{limit}` | " in text


def test_links_name_existing_operations_and_parameters() -> None:
    parameters = {
        operation["operationId"]: {p["name"] for p in operation.get("parameters", [])} for operation in operations()
    }
    responses = [response for operation in operations() for response in operation["responses"].values()]
    links = [link for response in responses for link in response.get("links", {}).values()]
    assert links
    assert all(link["parameters"].keys() <= parameters[link["operationId"]] for link in links)


def test_only_public_operations_need_no_key() -> None:
    public = {operation["operationId"] for operation in operations() if not operation.get("security")}
    assert public == {"downloadArtifact", "getReportData", "getManifest", "getHealth", "getReadiness", "getOpenApi"}


def test_the_document_is_public() -> None:
    response = Client().get("/v1/openapi.json")
    assert (response.status_code, response["Content-Type"]) == (200, "application/json")
    assert response.json() == json.loads(json.dumps(document()))
    assert "public" in response["Cache-Control"]


def check(**chosen: str) -> subprocess.CompletedProcess[str]:
    """Compare the committed document with that of a deployment with other settings."""
    environment = {**os.environ, **chosen}
    return subprocess.run(COMMAND, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_the_check_fails_for_another_deployment() -> None:
    refused = check(API_VARIANT="R", API_RESOURCE="other")
    assert (refused.returncode, "make openapi" in refused.stderr) == (1, True)


CAPS = {"maxCredits", "maxRuntimeSeconds"}


@pytest.mark.parametrize(("variant", "caps"), [("R", {"maxRuntimeSeconds"}), ("C", CAPS)])
def test_the_document_describes_the_current_variant(variant: str, caps: set[str], settings: Settings) -> None:
    settings.API_VARIANT = variant
    runtime = document()["components"]["schemas"]["RuntimeFields"]["properties"]
    assert runtime.keys() & CAPS == caps
