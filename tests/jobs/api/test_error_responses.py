"""Errors and public responses match the handwritten contract and the OpenAPI document."""

import pytest
from django.test import Client as HttpClient

from billing import ledger
from tests.factories import PROFILE, make_job
from tests.jobs.api.bodies import body_with
from tests.jobs.api.contract.types import check
from tests.jobs.api.error_cases import CASES, CaseContext, error
from tests.jobs.api.response_checks import checked, json_body


# /mcp is not in the document.
@pytest.mark.parametrize("code", sorted(CASES.keys() - {"origin_not_allowed"}))
def test_each_error_matches_contract_and_document(case_context: CaseContext, variant: str, code: str) -> None:
    checked(CASES[code].produce(case_context), variant)


def test_missing_credits_for_high_priority_name_the_fee(case_context: CaseContext, variant: str) -> None:
    make_job()
    ledger.correct(case_context.account, 10 - ledger.available(case_context.account), reason="for the test")
    body = checked(case_context.submit(body_with("priority", "high")), variant)
    assert body["priorityFeeCredits"] == body["meta"]["priorityFeeCredits"]


@pytest.mark.parametrize(
    "text",
    ["", "html=/tmp/x\n" * 30, PROFILE + "html=" + "x" * 500, "\n" * 150_000],
    ids=["nothing to simulate", "many", "long", "too long"],
)
def test_the_error_of_a_rejected_profile(case_context: CaseContext, variant: str, text: str) -> None:
    assert (
        checked(case_context.submit(body_with("profile.text", text)), variant)["code"] == "input_sanitized_rejected"
    )


@pytest.mark.parametrize(
    "path", ["/share/unknown", "/manifests/unknown", "/artifacts/unknown", "/v1/sim/unknown", "/v2"]
)
@pytest.mark.django_db
def test_unknown_paths_return_404(path: str) -> None:
    response = HttpClient(headers={"accept": "application/json"}).get(path)
    if response.headers["Content-Type"] == "application/json":
        check(json_body(response), error(404, "not_found"))
    assert response.status_code == 404


@pytest.mark.parametrize("path", ["/healthz", "/v1/openapi.json"])
@pytest.mark.django_db
def test_endpoints_without_a_key(path: str, variant: str) -> None:
    checked(HttpClient().get(path), variant)
