"""Errors of addresses outside the API: the envelope for programs, pages for people."""

import io
from typing import Any

import pytest
from django.test import Client as HttpClient
from django.test import RequestFactory

from dashboard.public.card import view
from jobs.artifacts import artifact_files
from jobs.models import Artifact
from simservice import worker_heartbeats
from simservice.web.error_pages import wants_json
from tests.factories import make_job, make_key

pytestmark = pytest.mark.django_db
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
PREFERS_JSON = [
    "application/json",
    "APPLICATION/JSON",
    "application/json; charset=utf-8",
    "application/json, text/plain, */*",
    "application/problem+json",
    "application/*",
    "application/json, text/html;q=0.9",
]
PREFERS_PAGES = [BROWSER, "*/*", "", "text/html", "text/html, application/json", "image/png", "nonsense"]
UNKNOWN = ["/sim/jobs", "/jobs", "/v2/sim/jobs", "/sim/jobs/1/status", "/share/unknown", "/share/unknown/card.png"]


def envelope_of(response: Any) -> dict[str, Any]:
    """Return the envelope of an error."""
    assert response.headers["Content-Type"] == "application/json"
    body: dict[str, Any] = response.json()
    assert set(body) == {"error", "code", "meta", "requestId"}
    assert body["requestId"] == response.headers["X-Request-Id"]
    assert body["error"]
    return body


def request_json(path: str, method: str = "GET", **headers: str) -> Any:
    return HttpClient().generic(method, path, headers={"accept": "application/json", **headers})


@pytest.mark.parametrize("accept", PREFERS_JSON)
def test_a_client_that_prefers_json_gets_it(accept: str) -> None:
    assert wants_json(RequestFactory().get("/x", headers={"accept": accept}))
    assert envelope_of(HttpClient().get("/nowhere", headers={"accept": accept}))["code"] == "not_found"


@pytest.mark.parametrize("accept", PREFERS_PAGES)
def test_other_clients_get_pages(accept: str) -> None:
    response = HttpClient().get("/nowhere", headers={"accept": accept})
    assert (response.status_code, response.headers["Content-Type"]) == (404, "text/html; charset=utf-8")


def test_a_browser_behind_a_proxys_login_gets_pages() -> None:
    response = HttpClient().get("/nowhere", headers={"accept": BROWSER, "authorization": "Basic dTpw"})
    assert response.headers["Content-Type"].startswith("text/html")


@pytest.mark.parametrize("path", UNKNOWN)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_unknown_address_names_those_of_the_api(path: str, method: str) -> None:
    headers = {"authorization": f"Bearer {make_key()[1]}"}
    for response in (request_json(path, method), HttpClient().generic(method, path, headers=headers)):
        body = envelope_of(response)
        assert (response.status_code, body["code"]) == (404, "not_found")
        assert "http://testserver/v1/sim/" in body["error"]


def test_a_redirect_stays_a_redirect() -> None:
    response = request_json("/docs/")
    assert (response.status_code, response.headers["Location"]) == (308, "/docs")


@pytest.mark.parametrize("path", ["/docs", "/healthz", "/readyz", "/accounts/login/", "/v1/openapi.json"])
def test_an_unsupported_method_is_named(path: str) -> None:
    response = request_json(path, "DELETE")
    assert envelope_of(response)["code"] in ("method_not_allowed", "validation_failed")
    assert response.status_code in (405, 403)


def test_a_form_without_its_token_is_refused_in_the_envelope() -> None:
    response = HttpClient(enforce_csrf_checks=True).post("/accounts/login/", headers={"accept": "application/json"})
    assert response.status_code == 403
    assert "begin with /v1/" in envelope_of(response)["meta"]["issues"][0]["message"]


def test_readiness_has_the_envelope_for_programs() -> None:
    response = request_json("/readyz")
    body = envelope_of(response)
    assert (response.status_code, body["code"]) == (503, "queue_unavailable")
    assert (body["meta"]["database"], body["meta"]["worker"]) == (True, False)
    assert response.headers["Retry-After"]
    assert HttpClient().get("/readyz").json()["status"] == "unavailable"
    worker_heartbeats.report("sim@here")
    assert request_json("/readyz").json()["status"] == "ok"


def test_a_busy_picture_has_the_envelope_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "WAIT_SECONDS", 0.01)
    path = f"/share/{make_job().share_token}/card.png"
    with view._drawing:
        asked, other = request_json(path), HttpClient().get(path, headers={"accept": "image/*"})
    body = envelope_of(asked)
    assert (asked.status_code, body["code"], asked.headers["Retry-After"]) == (503, "queue_unavailable", "2")
    assert body["error"] == view.BUSY.strip() == other.content.decode().strip()


@pytest.mark.parametrize("headers", [{}, {"accept": "application/json"}])
def test_a_range_after_the_end_has_the_envelope(headers: dict[str, str]) -> None:
    stored = artifact_files.store(make_job(), Artifact.Kind.JSON_REPORT, io.BytesIO(b"{}"))
    stored.save(force_insert=True)
    response = HttpClient().get(f"/artifacts/{stored.token}", headers={"range": "bytes=2-", **headers})
    body = envelope_of(response)
    assert (response.status_code, body["code"]) == (416, "validation_failed")
    assert [issue["path"] for issue in body["meta"]["issues"]] == ["range"]
    assert response.headers["Content-Range"] == "bytes */2"


def test_a_failure_of_a_page_has_the_envelope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.public.card.view.card_of", lambda *_: 1 / 0)
    http = HttpClient(raise_request_exception=False)
    path = f"/share/{make_job().share_token}/card.png"
    response = http.get(path, headers={"accept": "application/json"})
    assert (response.status_code, envelope_of(response)["code"]) == (500, "internal_error")


def test_closed_metrics_have_the_envelope() -> None:
    response = request_json("/metrics")
    assert (response.status_code, envelope_of(response)["code"]) == (404, "not_found")
