"""The JSON in the reference is that of the OpenAPI document, which the API's tests compare with the code."""

import json
from typing import Any

import pytest

from simservice.api.openapi import document
from tests.docs.guide_runs import ROOT, blocks_of

JOBS = "/v1/sim/jobs"
# The section of each example, and the operation that it belongs to
RESPONSES = {
    "Submit a job": (JOBS, "post"),
    "Job status": (f"{JOBS}/{{job_id}}/status", "get"),
    "Job object": (f"{JOBS}/{{job_id}}", "get"),
    "Job result": (f"{JOBS}/{{job_id}}/result", "get"),
    "Usage": ("/v1/sim/usage", "get"),
}


def json_blocks(page: str) -> dict[str, list[Any]]:
    """Return the JSON of a page of the reference by section."""
    found: dict[str, list[Any]] = {}
    for block in blocks_of((ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")):
        if block.language == "json":
            found.setdefault(block.section, []).append(json.loads(block.text))
    return found


def example_of(content: dict[str, Any]) -> Any:
    """Return the most complete example of a body."""
    return list(content.get("examples", {"only": {"value": content.get("example")}}).values())[-1]["value"]


@pytest.mark.parametrize("section", RESPONSES)
def test_a_response_is_the_documents_example(section: str) -> None:
    path, method = RESPONSES[section]
    expected = example_of(document()["paths"][path][method]["responses"]["200"]["content"]["application/json"])
    shown = json_blocks("api.md")[section][-1]
    if section == "Job result":
        expected = expected["result"]
    if section == "Usage":
        shown = shown | {"limits": shown["plan"]}
    assert shown == expected
    assert list(shown) == list(expected)


def test_the_submission_is_the_documents_example() -> None:
    body = document()["paths"][JOBS]["post"]["requestBody"]["content"]["application/json"]
    assert json_blocks("api.md")["Submit a job"][0] == example_of(body)


def test_the_error_is_the_documents_example() -> None:
    examples = document()["components"]["examples"]
    assert json_blocks("errors.md") == {"Errors": [examples["validation_failed"]["value"]]}


def test_every_example_of_the_api_is_compared() -> None:
    assert set(json_blocks("api.md")) == set(RESPONSES)
