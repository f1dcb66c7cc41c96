"""Access to the metrics, and the requests that they count."""

from pathlib import Path
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client as HttpClient
from django.test import RequestFactory

from simservice.telemetry.metrics import REGISTRY, WANTED, MetricsMiddleware
from tests.conftest import Api
from tests.web_server import read_response, request, web_server


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


def test_a_dropped_answer_is_not_counted() -> None:
    labels = {"method": "GET", "route": "none", "status": "299"}

    def respond(request: HttpRequest) -> HttpResponse:
        if "wait" in request.GET:
            request.META[WANTED] = "a wait"
        return HttpResponse(status=299)

    for query in ("?wait=25", ""):
        MetricsMiddleware(respond)(RequestFactory().get("/" + query))
    assert requests_counted(**labels) == 1


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/no/such/place", "/static/css/site.css"])
def test_unknown_paths_and_methods_add_no_series(path: str) -> None:
    status = str(HttpClient().generic("BREW", path).status_code)
    assert requests_counted(method="other", route="none", status=status) >= 1
    assert "such" not in str(list(REGISTRY.collect()))


@pytest.mark.django_db(transaction=True)
def test_workers_of_one_web_server_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """gunicorn reads WEB_CONCURRENCY. Each new connection can reach another worker."""
    monkeypatch.setenv("WEB_CONCURRENCY", "3")
    monkeypatch.setenv("METRICS_TOKEN", "secret")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with web_server(tmp_path / "log") as web:
        for _ in range(30):
            assert web.send(request(b"/healthz")).status == 200
        scrape = request(b"/metrics", b"Authorization: Bearer secret")
        texts = [web.send(scrape).body.decode() for _ in range(6)]
        (folder,) = tmp_path.glob("simservice-metrics-*")
    series = 'simservice_request_seconds_count{method="GET",route="healthz",status="200"} 30.0'
    assert all(series in text for text in texts)
    assert all(text.count("\nsimservice_jobs_held ") == 1 for text in texts)
    assert not folder.exists()


@pytest.mark.django_db(transaction=True)
def test_the_web_server_measures_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METRICS_TOKEN", "secret")
    with web_server(tmp_path / "log") as web, web.connection() as client:
        assert web.send(b"nonsense\r\n\r\n").status == 400
        client.sendall(request(b"/healthz"))
        assert read_response(client).status == 200
        # On the same connection, so that the first request has been counted.
        client.sendall(request(b"/metrics", b"Authorization: Bearer secret"))
        text = read_response(client).body.decode()
    assert "\nsimservice_thread_wait_seconds_count 1.0\n" in text
    assert '\nsimservice_requests_rejected_total{reason="validation_failed"} 1.0\n' in text
    assert "\nprocess_open_fds " in text
