"""The generated objects of the library fit the API's document."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from simservice_client import error_codes, models
from simservice_client._sync.jobs import TERMINAL, ArtifactKind
from simservice_client.errors import ApiError
from simservice_client.submissions import Channel, Priority

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = json.loads((ROOT / "docs" / "openapi.json").read_text())


def examples() -> list[Any]:
    """Return the name of an object, and an example, for each response that has both."""
    found = []
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            for status, response in operation["responses"].items():
                content = response.get("content", {}).get("application/json", {})
                name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
                if name and status.startswith("2"):
                    texts = [each["value"] for each in content.get("examples", {}).values() if "value" in each]
                    texts += [content["example"]] if "example" in content else []
                    found += [pytest.param(name, text, id=f"{method} {path}") for text in texts]
    return found


@pytest.mark.parametrize(("name", "example"), examples())
def test_examples_are_read_and_written_without_loss(name: str, example: dict[str, Any]) -> None:
    read = getattr(models, name).from_json(example)
    assert read.to_json() == example
    unknown = getattr(models, name).from_json({**example, "addedLater": 1})
    assert unknown == read


def test_a_missing_field_is_an_error() -> None:
    with pytest.raises(KeyError, match="url"):
        models.ArtifactUrl.from_json({})


def test_every_error_code_has_a_class() -> None:
    assert set(error_codes.BY_CODE) == set(DOCUMENT["components"]["examples"])
    for code, kind in error_codes.BY_CODE.items():
        assert issubclass(kind, ApiError)
        assert kind.code == code


def test_handwritten_choices_are_those_of_the_api() -> None:
    fields = DOCUMENT["components"]["schemas"]
    assert set(get_args(ArtifactKind)) == set(fields["ResultArtifact"]["properties"]["kind"]["enum"])
    assert set(get_args(Channel)) == set(fields["BuildFields"]["properties"]["channel"]["enum"])
    assert {*get_args(Priority), None} == set(fields["SubmissionFields"]["properties"]["priority"]["enum"])
    assert set(fields["TerminalPayload"]["properties"]["status"]["enum"]) == TERMINAL
