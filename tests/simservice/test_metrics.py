"""Access to the metrics, and the requests that they count."""

from typing import Any

import pytest
from django.test import Client as HttpClient

from simservice.metrics import REGISTRY
from tests.conftest import Api


def get_metrics(token: str | None) -> Any:
    """Request the metrics, with or without a bearer token."""
    return HttpClient().get("/metrics", headers={"authorization": f"Bearer {token}"} if token is not None else {})


@pytest.mark.parametrize(
    ("configured", "sent", "status"),
    [("", None, 404), ("", "", 404), ("secret", None, 404), ("secret", "wrong", 404), ("secret", "gehéim", 404)],
)
def test_metrics_return_404_without_the_token(
    settings: Any, configured: str, sent: str | None, status: int
) -> None:
    settings.METRICS_TOKEN = configured
    response = get_metrics(sent)
    assert response.status_code == status
    assert b"simservice_" not in response.content


@pytest.mark.django_db
def test_prometheus_can_parse_the_metrics(settings: Any) -> None:
    settings.METRICS_TOKEN = "secret"
    response = get_metrics("secret")
    assert (response.status_code, response["Content-Type"].split(";")[0]) == (200, "text/plain")
    assert b"# TYPE simservice_request_seconds histogram" in response.content


def requests_counted(**labels: str) -> float:
    return REGISTRY.get_sample_value("simservice_request_seconds_count", labels) or 0


@pytest.mark.django_db
def test_requests_are_counted_by_url_pattern(api: Api) -> None:
    labels = {"method": "GET", "route": "v1/sim/jobs/<str:job_id>", "status": "404"}
    before = requests_counted(**labels)
    for number in range(3):
        api.get(f"jobs/{number}")
    assert requests_counted(**labels) - before == 3


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/no/such/place", "/static/css/site.css"])
def test_unknown_paths_and_methods_add_no_series(path: str) -> None:
    status = str(HttpClient().generic("BREW", path).status_code)
    assert requests_counted(method="other", route="none", status=status) >= 1
    assert "such" not in str(list(REGISTRY.collect()))
