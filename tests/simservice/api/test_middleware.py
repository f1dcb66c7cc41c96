"""Maintenance mode."""

from typing import Any

import pytest
from django.test import Client as HttpClient

from tests.conftest import Api


@pytest.mark.parametrize("path", ["/v1/sim/builds", "/v1/sim/jobs", "/v1/nowhere"])
def test_maintenance_needs_no_authentication(settings: Any, path: str) -> None:
    settings.MAINTENANCE_SECONDS = 90
    response = HttpClient().get(path)
    assert (response.status_code, response["Retry-After"]) == (503, "90")
    assert (response.json()["code"], response.json()["meta"]) == ("api_maintenance", {"retryAfterSeconds": 90})
    assert response["X-Request-Id"] == response.json()["requestId"]


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/metrics", 200), ("/", 200)])
def test_maintenance_affects_only_the_api(settings: Any, path: str, status: int) -> None:
    settings.MAINTENANCE_SECONDS, settings.METRICS_TOKEN = 90, "t"
    assert HttpClient().get(path, headers={"authorization": "Bearer t"}).status_code == status


@pytest.mark.django_db
def test_the_api_responds_without_maintenance(api: Api) -> None:
    assert api.get("builds").status_code == 200


def test_maintenance_affects_the_path_that_is_resolved(settings: Any) -> None:
    settings.MAINTENANCE_SECONDS = 90
    assert HttpClient().get("/v1/sim/jobs", SCRIPT_NAME="/x").status_code == 503
    assert HttpClient().get("/accounts/nowhere", SCRIPT_NAME="/v1").status_code == 404
