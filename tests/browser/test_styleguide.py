"""The components of the style guide look as recorded."""

import json

import pytest

from tests.browser.chromium import Visitor
from tests.browser.looks import RECORD, looks
from tests.stack import Stack

pytestmark = pytest.mark.xdist_group("browser")


def test_components_look_as_recorded(visitor: Visitor, stack: Stack) -> None:
    visitor.log_in(stack.ready["user"], stack.ready["password"])
    # If the change is intended, look at /styleguide and run `python -m tests.browser.looks`.
    assert looks(visitor) == json.loads(RECORD.read_text())
