"""Trailing slashes: every page redirects to its canonical address."""

import pytest
from django.contrib.auth.models import User
from django.test import Client as HttpClient
from django.test import RequestFactory
from django.urls import Resolver404, resolve
from django.urls import path as url
from pytest_django import Settings

from dashboard.jobs.sharing import share
from simservice.web.error_pages import is_api_path, redirect_for
from tests.routes import RESOURCE, ROUTES, WITH_KEY, address, admin_browser, logged_in_operator

__all__ = ["admin_browser", "logged_in_operator"]
METHODS = ("get", "head", "post", "put", "delete")
pytestmark = pytest.mark.django_db


def named(path: str) -> bool:
    try:
        return resolve(path).url_name is not None
    except Resolver404:
        return False


ADDRESSES = sorted({address(route, account="demo") for route in ROUTES if route})
PAGES = [path for path in ADDRESSES if not is_api_path(path) and named(path)]


def other(path: str) -> str:
    """Return an address with its trailing slash added or removed."""
    return path.removesuffix("/") if path.endswith("/") else f"{path}/"


def test_all_pages_are_tested() -> None:
    assert len(PAGES) > 80
    for path in ("/docs", "/dashboard/", "/dashboard/demo/jobs", "/accounts/login/", "/admin/"):
        assert path in PAGES, path


@pytest.mark.parametrize("path", PAGES)
def test_a_page_redirects_to_its_canonical_address(path: str, admin_browser: HttpClient) -> None:
    http = admin_browser if path.startswith("/admin/") else HttpClient()
    for method in METHODS:
        response = getattr(http, method)(f"{other(path)}?q=%C3%A9&next=/x")
        # 308: the client sends the same method and body again.
        assert (response.status_code, response.headers["Location"]) == (308, f"{path}?q=%C3%A9&next=/x"), method
        assert response.headers["Cache-Control"] == "no-store"


def test_a_redirected_form_keeps_its_body() -> None:
    User.objects.create_user("walker", password="a long way to go")
    fields = {"login": "walker", "password": "a long way to go"}
    response = HttpClient().post("/accounts/login", fields, follow=True)
    assert response.redirect_chain[0] == ("/accounts/login/", 308)
    assert response.wsgi_request.user.is_authenticated


@pytest.mark.parametrize("route", [*(RESOURCE + route for route in WITH_KEY), "v1/openapi.json"])
def test_api_addresses_are_exact(route: str) -> None:
    for method in ("get", "post"):
        response = getattr(HttpClient(), method)(f"{address(route)}/")
        assert (response.status_code, response.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("path", ["/nowhere", "/nowhere/", "/docs//", "/", "/dashboard/%0d%0ax/jobs/"])
def test_an_unknown_address_is_not_redirected(path: str) -> None:
    assert HttpClient().get(path).status_code == (200 if path == "/" else 404)


def test_two_pages_do_not_redirect_to_each_other(settings: Settings) -> None:
    settings.ROOT_URLCONF = (url("a", share, name="a"), url("a/", share, name="b"))
    for path in ("/a", "/a/"):
        assert redirect_for(RequestFactory().get(path)) is None


def test_redirects_never_lead_to_another_host() -> None:
    for path in ("//docs/", "//evil.example/docs/", "/\\evil.example/docs/"):
        request = RequestFactory().get("/")
        request.path_info = path
        assert redirect_for(request) is None


@pytest.mark.parametrize("path", ["/admin/nowhere", "/admin/nowhere/"])
def test_an_unknown_page_of_the_admin_is_not_redirected(path: str, admin_browser: HttpClient) -> None:
    assert admin_browser.get(path).status_code == 404
