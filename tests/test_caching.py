"""Caching headers of every route, for every kind of caller."""

import pytest
from django.test import Client as HttpClient
from pytest_django import Settings

from tests.factories import unknown_key
from tests.routes import (
    ADMIN,
    CALLS,
    LOGIN_ROUTES,
    METHODS,
    OPEN,
    PAGES,
    PERSONAL,
    RESOURCE,
    TEXTS,
    World,
    address,
    admin_browser,
    browsers,
    call,
    logged_in,
    logged_in_operator,
    world,
)

__all__ = ["admin_browser", "browsers", "logged_in", "logged_in_operator", "world"]
pytestmark = pytest.mark.django_db
# Routes without login or key, which may be cached.
CACHED = {
    "artifacts/<token:token>": "private, max-age=3600",
    "share/<token:token>/<datafile:file>": "private, no-cache",
    "share/<token:token>/card.png": "public, max-age=86400",
    **dict.fromkeys(("v1/openapi.json", *TEXTS), "public, max-age=300"),
}


@pytest.mark.parametrize(("method", "route"), CALLS)
def test_responses_to_keys_are_not_cached(method: str, route: str, world: World) -> None:
    path = world.path(RESOURCE + route)
    for secret in (world.owner, world.stranger, unknown_key(), "sk_x", None):
        response = call(method, path, secret)
        assert "no-store" in response.headers["Cache-Control"], (secret, response.status_code)


@pytest.mark.parametrize("path", ["/v1/sim/nowhere", "/v1/sim/jobs/x", "/v1/", "/nowhere", "/dashboard/nowhere/"])
def test_errors_are_not_cached(path: str, world: World) -> None:
    for method in METHODS:
        assert "no-store" in call(method, path, world.owner).headers["Cache-Control"], method


def test_maintenance_responses_are_not_cached(settings: Settings) -> None:
    settings.MAINTENANCE_SECONDS = 60
    assert "no-store" in call("GET", f"/{RESOURCE}jobs").headers["Cache-Control"]


@pytest.mark.parametrize("route", sorted({*PAGES, *PERSONAL, *LOGIN_ROUTES}))
def test_pages_behind_a_login_are_not_cached(route: str, browsers: dict[str, HttpClient]) -> None:
    path = address(route, account=browsers["owner"].defaults["ACCOUNT"])
    for who, browser in browsers.items():
        for response in (browser.get(path), browser.post(path)):
            assert "no-store" in response.headers["Cache-Control"], (who, response.status_code)


@pytest.mark.parametrize("route", sorted(ADMIN))
def test_admin_pages_are_not_cached(route: str, admin_browser: HttpClient) -> None:
    response = admin_browser.get(address(route.replace("(?P<url>.*)", "nowhere")))
    assert "no-store" in response.headers["Cache-Control"]


@pytest.mark.parametrize("route", sorted(OPEN))
def test_public_responses_have_their_own_caching(route: str, world: World) -> None:
    assert call("GET", world.path(route)).headers["Cache-Control"] == CACHED.get(route, "no-store")


def test_an_artifact_keeps_its_etag(world: World) -> None:
    path = world.path("artifacts/<token:token>")
    tag = call("GET", path).headers["ETag"]
    again = HttpClient().get(path, headers={"if-none-match": tag})
    assert (again.status_code, again.headers["Cache-Control"]) == (304, "private, max-age=3600")
