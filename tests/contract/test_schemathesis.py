"""Responses of the running API match its OpenAPI document. `make fuzz` also tests the other variant."""

from pathlib import Path

import pytest

from tests.contract.fuzz import VARIANTS, fuzz
from tests.stack import running_stack

pytestmark = [pytest.mark.xdist_group("fuzz"), pytest.mark.timeout(240)]

# A change is judged by its own requests, not by luck; `make fuzz` generates others in each run.
SEED = 1


def test_generated_requests_get_documented_responses(tmp_path: Path) -> None:
    with running_stack(tmp_path / "stack", API_VARIANT=VARIANTS[0]) as stack:
        report = fuzz(stack, examples=2, seed=SEED)
    assert not report.failed, report.text
    assert report.cases > 300
