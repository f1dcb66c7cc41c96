"""Every error of the API is produced with its documented status, code and headers."""

import pytest

from simservice.api.errors import family
from tests.jobs.api.error_cases import CASES, CaseContext


def test_every_error_has_a_case() -> None:
    assert set(CASES) == {error.code for error in family()}


@pytest.mark.parametrize("code", sorted(error.code for error in family()))
def test_each_error_has_its_status_code_and_headers(case_context: CaseContext, code: str) -> None:
    response = CASES[code].produce(case_context)
    (error,) = [error for error in family() if error.code == code]
    body = response.json()
    assert (response.status_code, body["code"]) == (error.status, code)
    assert set(body) == {"error", "code", "meta", "requestId"}
    assert body["error"]
    assert response.status_code != 422 or body["meta"]["reason"] == code
    assert body["requestId"] == response.headers["X-Request-Id"]
    assert ("WWW-Authenticate" in response.headers) == ("WWW-Authenticate" in error.headers)
    assert ("Retry-After" in response.headers) == (error.status in (429, 503) or code == "result_not_ready")
