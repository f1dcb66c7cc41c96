"""Requests for tests of the API."""

import copy
from typing import Any

import pytest

from tests.factories import PROFILE

BODY: dict[str, Any] = {"build": {"channel": "latest"}, "profile": {"text": PROFILE}}


def body_with(path: str, value: Any) -> dict[str, Any]:
    """Return a valid body with another value at one dotted path."""
    body = copy.deepcopy(BODY)
    *parents, last = path.split(".")
    target = body
    for name in parents:
        target = target.setdefault(name, {})
    target[last] = value
    return body


def only_in(variant: str) -> pytest.MarkDecorator:
    """Return the mark of tests of one variant, or of what is the same in both."""
    return pytest.mark.parametrize("variant", [variant], indirect=True)
