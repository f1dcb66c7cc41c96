"""The free examples of the OpenAPI document: requests that a reader can send as they are."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client as HttpClient

from billing.models import Entry
from clients.accounts import default_client
from clients.models import ApiKey
from jobs.models import Job
from simservice.api.openapi import document
from tests.jobs.api.bodies import only_in
from tests.jobs.api.response_checks import check_document, checked, documented, json_body
from tests.jobs.simulators import run

# Operations that cost or change something
OTHERS = {"submitJob", "submitBatch", "cancelJob", "pauseJob", "resumeJob", "replaceLinks"}


def operations() -> Iterator[dict[str, Any]]:
    for methods in document()["paths"].values():
        yield from methods.values()


class Reader:
    """A reader of the document who sends its free examples."""

    def __init__(self, secret: str) -> None:
        self._headers = {"Authorization": f"Bearer {secret}"}
        self._operations = {each["operationId"]: each for each in operations()}

    def send(self, operation: dict[str, Any], example: dict[str, Any]) -> Any:
        """Send an example, after those that have the values of its parameters."""
        headers = self._headers if operation.get("security") else {}
        values = {name: self._value(source) for name, source in example.get("parameters", {}).items()}
        path = re.sub(r"{(\w+)}", lambda found: values[found[1]], example["path"])
        body = example.get("body", "")
        text = body if isinstance(body, str) else json.dumps(body)
        media_type = example.get("headers", {}).get("Content-Type", "")
        return HttpClient().generic(example["method"], path, text, content_type=media_type, headers=headers)

    def _value(self, source: dict[str, Any]) -> str:
        operation = self._operations[source["operationId"]]
        value = self.send(operation, operation["x-free-examples"][0]).json()
        for name in source["pointer"].split("/")[1:]:
            value = value[int(name) if name.isdecimal() else name]
        return str(value.rpartition("/")[2] if source.get("lastSegment") else value)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("minisim")
def test_every_free_example_runs_and_costs_nothing(key: tuple[ApiKey, str], variant: str) -> None:
    job = run(default_client(key[0].client.account), text='mage="A"\nlevel=80\niterations=20\n')
    entries = Entry.objects.count()
    reader = Reader(key[1])
    for operation in operations():
        for example in operation.get("x-free-examples", []):
            response = reader.send(operation, example)
            name = operation["operationId"]
            # There is no worker in these tests.
            assert response.status_code == (503 if name == "getReadiness" else 200), (name, response)
            if name == "downloadArtifact":
                assert b'mage="A"' in b"".join(response.streaming_content)
            elif name == "getReportData":
                assert b'"simbot"' in b"".join(response.streaming_content)
            elif name == "getReadiness":
                check_document(json_body(response), documented(response)[1])
            else:
                checked(response, variant)
    assert (Entry.objects.count(), list(Job.objects.values_list("pk", flat=True))) == (entries, [job.pk])


@only_in("C")
def test_every_free_operation_has_an_example(variant: str) -> None:
    without = {each["operationId"] for each in operations() if not each.get("x-free-examples")}
    assert without == OTHERS


def test_bodies_of_free_examples_match_their_schemas(variant: str) -> None:
    for operation in operations():
        for example in operation.get("x-free-examples", []):
            if "body" in example:
                content = operation["requestBody"]["content"][example["headers"]["Content-Type"]]
                check_document(example["body"], content["schema"])
