"""The contract's tests run under both variants of the API."""

import pytest
from pytest_django import Settings


@pytest.fixture(autouse=True, params=["C", "R"])
def variant(request: pytest.FixtureRequest, settings: Settings) -> str:
    """The deployment's variant; a test of one variant alone takes it with `only_in`."""
    settings.API_VARIANT = request.param
    return str(request.param)
