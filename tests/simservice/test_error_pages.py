"""HTML pages about errors: what they say, and what they read."""

import re
from typing import Any, cast

import pytest
from django.db import OperationalError, connection
from django.test import Client as HttpClient
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils.functional import SimpleLazyObject
from pytest_django import Settings

from clients.models import Membership
from simservice.api.errors import RateLimitExceeded
from simservice.web import error_pages
from tests.dashboard.browsing import browser_of, text_of
from tests.factories import make_member

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner() -> Membership:
    return make_member()


def fail(http: HttpClient, monkeypatch: pytest.MonkeyPatch, error: Exception) -> Any:
    """Open a page whose view raises an error."""

    def raise_error(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("dashboard.results.result_of", raise_error)
    http.raise_request_exception = False
    return http.get("/example")


@pytest.mark.parametrize(("error", "status"), [(ValueError("x"), 500), (OperationalError("x"), 503)])
def test_pages_about_outages_read_no_database(
    owner: Membership, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    http = browser_of(owner)
    with CaptureQueriesContext(connection) as queries:
        response = fail(http, monkeypatch, error)
    assert (response.status_code, len(queries)) == (status, 0)
    assert 'href="/dashboard/"' in response.content.decode()


def test_a_page_about_a_flood_does_not_read_the_user(rf: RequestFactory) -> None:
    request = rf.get("/example", headers={"accept": "text/html"})
    cast(Any, request).user = SimpleLazyObject(lambda: pytest.fail("The user was read."))
    response = error_pages.render_error(request, RateLimitExceeded({"scope": "address", "limit": "public"}))
    assert response.status_code == 429
    assert 'href="/dashboard/"' in response.content.decode()


def test_an_outage_of_the_database_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(fail(HttpClient(), monkeypatch, OperationalError("no database"))).lower()
    assert "try again in a minute" in text
    assert "database" not in text


@pytest.mark.parametrize("path", ["/nowhere", "/dashboard/nobody/", "/dashboard/{}/audit"])
def test_users_keep_their_bar(owner: Membership, path: str) -> None:
    viewer = make_member(owner.account, role="viewer")
    response = browser_of(viewer).get(path.format(owner.account))
    assert response.status_code in (403, 404)
    assert f'href="/dashboard/{owner.account}/jobs"' in response.content.decode()


def test_users_without_a_valid_form_keep_their_bar(owner: Membership) -> None:
    http = HttpClient(enforce_csrf_checks=True)
    http.force_login(owner.user)
    response = http.post(f"/dashboard/{owner.account}/clients", {"name": "bot"})
    assert response.status_code == 403
    assert f'href="/dashboard/{owner.account}/jobs"' in response.content.decode()


def test_a_visitors_error_reads_no_database() -> None:
    with CaptureQueriesContext(connection) as queries:
        assert HttpClient().get("/nowhere").status_code == 404
    assert len(queries) == 0


def test_pages_show_the_request_id_of_the_header(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    viewer = browser_of(make_member(owner.account, role="viewer"))
    for response in (
        viewer.get("/nowhere"),
        viewer.get(f"/dashboard/{owner.account}/audit"),
        fail(HttpClient(), monkeypatch, ValueError("x")),
    ):
        shown = re.findall(r"<code>(req_[0-9a-f]{32})</code>", response.content.decode())
        assert shown == [response.headers["X-Request-Id"]]


def test_error_pages_announce_maintenance(settings: Settings) -> None:
    settings.MAINTENANCE_SECONDS = 60
    assert "Maintenance in progress" in text_of(HttpClient().get("/nowhere"))
