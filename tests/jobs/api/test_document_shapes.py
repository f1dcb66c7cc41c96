"""Agreement of the OpenAPI document with the handwritten contract."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import ValidationError

from simservice.api.examples import family
from simservice.api.openapi import document
from tests.jobs.api import contract, error_schemas, schemas
from tests.jobs.api.bodies import only_in
from tests.jobs.api.shape_checks import NOT_JSON, check_document


@only_in("C")
def test_examples_in_the_document_match(variant: str) -> None:
    shapes = contract.answers(variant)
    for operation in (one for methods in document()["paths"].values() for one in methods.values()):
        if operation["operationId"] in NOT_JSON | {"getOpenApi"}:
            continue
        found = operation["responses"]["200"]["content"]["application/json"]["example"]
        schemas.check(json.loads(json.dumps(found)), shapes[operation["operationId"]])
    for code, example in document()["components"]["examples"].items():
        schemas.check(example["value"], error_schemas.error(STATUSES[code], code))


STATUSES = {error.code: error.status for error in family()}


def test_every_operation_and_error_code_has_a_schema(variant: str) -> None:
    operations = {one["operationId"] for methods in document()["paths"].values() for one in methods.values()}
    assert operations == set(contract.answers(variant)) | NOT_JSON
    assert {code: status for status, codes in error_schemas.CODES.items() for code in codes} == STATUSES


def test_the_document_lists_the_codes_of_each_error() -> None:
    for operation in (one for methods in document()["paths"].values() for one in methods.values()):
        for status, told in operation["responses"].items():
            if int(status) < 400 or "application/json" not in told.get("content", {}):
                continue
            schema = told["content"]["application/json"]["schema"]
            if schema["$ref"].endswith("/Error"):
                assert set(schema["properties"]["code"]["enum"]) <= error_schemas.CODES[int(status)]


WRONG: dict[str, Callable[[dict[str, Any]], object]] = {
    "an unknown key": lambda job: job.update(further=1),
    "a missing key": lambda job: job.pop("retried"),
    "an internal status": lambda job: job.update(status="starting"),
    "a time without milliseconds": lambda job: job.update(createdAt="2026-11-20T08:10:00Z"),
    "a time of another zone": lambda job: job.update(createdAt="2026-11-20T08:10:00.123+00:00"),
    "an unknown error code": lambda job: job.update(errorCode="unknown"),
    "an id that is a number": lambda job: job.update(id=176352841234500042),
    "a build of the old form": lambda job: job["build"].update(ci={"status": "passed", "failed": []}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_document_and_contract_reject_wrong_jobs(wrong: str) -> None:
    schema = {"$ref": "#/components/schemas/Job"}
    job = document()["paths"]["/v1/sim/jobs/{job_id}"]["get"]["responses"]["200"]["content"]["application/json"]
    changed = json.loads(json.dumps(job["example"]))
    WRONG[wrong](changed)
    with pytest.raises(ValidationError):
        check_document(changed, schema)
    with pytest.raises(ValidationError):
        schemas.check(changed, contract.answers("C")["getJob"])
