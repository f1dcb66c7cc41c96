"""API tests run under both variants."""

import pytest
from pytest_django import Settings


@pytest.fixture(autouse=True, params=["C", "R"])
def variant(request: pytest.FixtureRequest, settings: Settings) -> str:
    """The API variant; tests of one variant select it with `only_in`."""
    settings.API_VARIANT = request.param
    return str(request.param)
