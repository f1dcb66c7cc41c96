"""The OpenAPI document matches the handwritten contract."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import ValidationError

from simservice.api.errors import family
from simservice.api.openapi import document
from tests.jobs.api.bodies import only_in
from tests.jobs.api.contract.operations import responses, webhook_body
from tests.jobs.api.contract.types import Strict, check
from tests.jobs.api.error_cases import CASES, RANGE_ERROR, error
from tests.jobs.api.response_checks import check_document


@only_in("C")
def test_the_documents_examples_match_the_contract(variant: str) -> None:
    schemas = responses(variant)
    for operation in (entry for methods in document()["paths"].values() for entry in methods.values()):
        if operation["operationId"] in NOT_JSON | {"getOpenApi"}:
            continue
        example = operation["responses"]["200"]["content"]["application/json"]["example"]
        check(json.loads(json.dumps(example)), schemas[operation["operationId"]])
    for code, example in document()["components"]["examples"].items():
        check(example["value"], error(STATUSES[code], code))


# A file, and a response whose fields depend on what is unavailable.
NOT_JSON = {"downloadArtifact", "getReportData", "getReadiness"}
STATUSES = {error.code: error.status for error in family()}


def test_the_contract_covers_all_operations_and_errors(variant: str) -> None:
    operations = {entry["operationId"] for methods in document()["paths"].values() for entry in methods.values()}
    assert operations == set(responses(variant)) | NOT_JSON
    assert {code: case.status for code, case in CASES.items()} == STATUSES


def test_the_handwritten_schemas_are_valid(variant: str) -> None:
    errors = [error(case.status, code) for code, case in CASES.items()]
    for schema in [*responses(variant).values(), *errors, webhook_body(variant)]:
        Strict.check_schema(schema)


def test_the_document_lists_the_codes_of_each_status() -> None:
    for operation in (entry for methods in document()["paths"].values() for entry in methods.values()):
        for status, response in operation["responses"].items():
            if int(status) < 400 or "application/json" not in response.get("content", {}):
                continue
            schema = response["content"]["application/json"]["schema"]
            if schema["$ref"].endswith("/Error"):
                codes = schema["properties"]["code"]["enum"]
                assert all((int(status), code) in {(CASES[code].status, code), RANGE_ERROR} for code in codes)


INVALID_CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "an unknown key": lambda job: job.update(further=1),
    "a missing key": lambda job: job.pop("retried"),
    "an internal status": lambda job: job.update(status="starting"),
    "a time without milliseconds": lambda job: job.update(createdAt="2026-11-20T08:10:00Z"),
    "a time of another zone": lambda job: job.update(createdAt="2026-11-20T08:10:00.123+00:00"),
    "an unknown error code": lambda job: job.update(errorCode="unknown"),
    "an id that is a number": lambda job: job.update(id=176352841234500042),
    "a build of the old form": lambda job: job["build"].update(ci={"status": "passed", "failed": []}),
}


@pytest.mark.parametrize("change", INVALID_CHANGES)
def test_contract_and_document_reject_an_invalid_job(change: str) -> None:
    schema = {"$ref": "#/components/schemas/Job"}
    job = document()["paths"]["/v1/sim/jobs/{job_id}"]["get"]["responses"]["200"]["content"]["application/json"]
    changed = json.loads(json.dumps(job["example"]))
    INVALID_CHANGES[change](changed)
    with pytest.raises(ValidationError):
        check_document(changed, schema)
    with pytest.raises(ValidationError):
        check(changed, responses("C")["getJob"])
