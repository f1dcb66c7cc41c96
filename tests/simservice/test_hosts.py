"""The hosts to which the service responds."""

import pytest
from django.test import Client as HttpClient
from pytest_django import Settings

ADDRESS = "10.0.0.7:8000"
pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("path", "status"), [("/metrics", 200), ("/healthz", 200), ("/readyz", 503)])
def test_internal_paths_respond_to_any_host(path: str, status: int, settings: Settings) -> None:
    settings.METRICS_TOKEN = "secret"
    headers = {"host": ADDRESS, "authorization": "Bearer secret"}
    response = HttpClient().get(path, headers=headers)
    assert response.status_code == status
    assert response["X-Request-Id"]


def test_metrics_without_the_token_are_hidden_at_any_host() -> None:
    assert HttpClient().get("/metrics", headers={"host": ADDRESS}).status_code == 404


@pytest.mark.parametrize("path", ["/", "/docs", "/v1/openapi.json", "/accounts/login/", "/metrics/", "/nowhere"])
def test_other_paths_respond_only_to_allowed_hosts(path: str) -> None:
    assert HttpClient().get(path, headers={"host": ADDRESS}).status_code == 400
    assert HttpClient().get(path).status_code != 400


def test_internal_paths_are_not_redirected_to_https(settings: Settings) -> None:
    settings.SECURE_SSL_REDIRECT = True
    assert HttpClient().get("/healthz", headers={"host": ADDRESS}).status_code == 200
    assert HttpClient().get("/").status_code == 301
