"""The running API keeps what its own document promises, whatever is sent to it."""

from pathlib import Path

import pytest

from tests.contract.fuzz import VARIANTS, fuzz
from tests.stack import running_stack

pytestmark = [pytest.mark.xdist_group("fuzz"), pytest.mark.timeout(240)]


@pytest.mark.parametrize("variant", VARIANTS)
def test_responses_match_the_openapi_document(variant: str, tmp_path: Path) -> None:
    with running_stack(tmp_path, API_VARIANT=variant) as stack:
        report = fuzz(stack, examples=5)
    assert not report.failed, report.text
    assert report.cases > 500
