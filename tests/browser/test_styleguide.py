"""The components of the style guide: they look as recorded, and are accessible in both colour schemes."""

import json

import pytest

from tests.browser.chromium import Visitor
from tests.browser.looks import RECORD, looks
from tests.browser.page_faults import faults
from tests.browser.site_data import at
from tests.stack import Stack

pytestmark = pytest.mark.xdist_group("browser")


def test_components_look_as_recorded_and_are_accessible(visitor: Visitor, stack: Stack, checks: None) -> None:
    visitor.log_in(stack.ready["user"], stack.ready["password"])
    # If the change is intended, look at /styleguide and run `python -m tests.browser.looks`.
    assert looks(visitor) == json.loads(RECORD.read_text())
    assert faults(visitor, at("styleguide", "/styleguide")) == []
