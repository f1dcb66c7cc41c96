"""Runs each API test in both variants of the API."""

import pytest
from pytest_django import Settings

import simservice.urls  # noqa: F401  the examples in the OpenAPI document are those of the variant at import
from clients.models import ApiKey
from tests.conftest import Api
from tests.jobs.api.error_cases import CaseContext


@pytest.fixture(autouse=True, params=["C", "R"])
def variant(request: pytest.FixtureRequest, settings: Settings) -> str:
    """Set the API variant. Tests of one variant choose it with `only_in`."""
    settings.API_VARIANT = request.param
    return str(request.param)


@pytest.fixture
def case_context(
    key: tuple[ApiKey, str], api: Api, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> CaseContext:
    return CaseContext(key=key[0], api=api, settings=settings, monkeypatch=monkeypatch)
