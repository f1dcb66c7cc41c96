"""Responses of the running API match its OpenAPI document. `make fuzz` also tests the other variant."""

import pytest

from tests.contract.fuzz import fuzz
from tests.stack import Stack

pytestmark = [pytest.mark.xdist_group("api"), pytest.mark.timeout(240)]

# A change is judged by its own requests, not by luck; `make fuzz` generates others in each run.
SEED = 1


def test_generated_requests_get_documented_responses(stack: Stack) -> None:
    report = fuzz(stack, examples=2, seed=SEED)
    assert not report.failed, report.text
    assert report.cases > 300
    stack.wait_for_all_ends()
