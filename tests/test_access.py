"""Access to every route, with every kind of credential."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client as HttpClient
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from clients.models import ApiKey
from simservice.api.operations import Operation, ResponseSpec
from simservice.api.scopes import Scope
from tests.factories import make_account, unknown_key
from tests.routes import (
    ABOUT_AN_OBJECT,
    ABOUT_OWN_OBJECTS,
    ADMIN,
    CALLS,
    COMPATIBLE,
    LISTS,
    LOGIN_ROUTES,
    METHODS,
    NEEDING_A_KEY,
    OBJECTS,
    OPEN,
    PAGES,
    PARAMETER,
    PERSONAL,
    READS,
    RESOURCE,
    ROUTES,
    TOOLS,
    WITH_KEY,
    WITHOUT_KEY,
    World,
    address,
    browsers,
    call,
    logged_in,
    methods_of,
    world,
)

__all__ = ["browsers", "logged_in", "world"]

# Forms that a viewer may submit, with their status.
FOR_VIEWERS = {
    "dashboard/<slug:account>/people/leave": 302,
    "dashboard/<slug:account>/first-steps/hide": 302,
}
# Pages that only an owner may read.
FOR_OWNERS = {
    "dashboard/<slug:account>/audit",
    "dashboard/<slug:account>/audit.csv",
    "dashboard/<slug:account>/credits/notice",
    "dashboard/<slug:account>/people/<id:member_id>/remove",
    "dashboard/<slug:account>/data",
    "dashboard/<slug:account>/data/exports/<id:export_id>",
    "dashboard/<slug:account>/data/delete",
}
# Pages that redirect every member to another one.
REDIRECTS = {"dashboard/<slug:account>/search"}
# Calls of the owner that fail for an ended job.
OWN: dict[tuple[str, str], tuple[int, str]] = {
    ("POST", "jobs"): (400, "validation_failed"),
    ("POST", "jobs/batch"): (400, "validation_failed"),
    ("POST", "jobs/validate"): (400, "validation_failed"),
    ("POST", "jobs/<str:job_id>/cancel"): (409, "job_not_cancellable"),
    ("POST", "jobs/<str:job_id>/pause"): (409, "job_not_pausable"),
    ("POST", "jobs/<str:job_id>/resume"): (409, "job_not_pausable"),
}

# The calls that a key can make with a scope, besides those of the scopes before it.
SCOPES = {
    Scope.READ: {
        ("GET", "jobs"),
        ("GET", "jobs/<str:job_id>"),
        ("GET", "jobs/<str:job_id>/status"),
        ("GET", "jobs/<str:job_id>/result"),
        ("GET", "jobs/<str:job_id>/profile"),
        ("GET", "usage"),
        ("GET", "credits"),
        ("GET", "builds"),
        ("GET", "builds/<str:build_id>"),
        ("GET", "artifacts/<str:artifact_id>/url"),
    },
    Scope.SUBMIT: {
        ("POST", "jobs"),
        ("POST", "jobs/batch"),
        ("POST", "jobs/validate"),
        ("POST", "jobs/<str:job_id>/cancel"),
        ("POST", "jobs/<str:job_id>/pause"),
        ("POST", "jobs/<str:job_id>/resume"),
    },
    Scope.MANAGE: {("POST", "jobs/<str:job_id>/replace-links")},
}

pytestmark = pytest.mark.django_db


def without_id(response: Any) -> tuple[int, dict[str, Any]]:
    """Return an error's status and its body without the request id."""
    return response.status_code, {**response.json(), "requestId": ""}


def test_every_route_is_listed() -> None:
    with_key = {*COMPATIBLE, *TOOLS, *(RESOURCE + route for route in WITH_KEY)}
    listed = {*OPEN, *LOGIN_ROUTES, *PERSONAL, *PAGES, *ADMIN, *with_key}
    unexpected = [route for route in ROUTES if route not in listed]
    assert not unexpected, f"Add {unexpected} to OPEN in tests/routes.py with the status for callers without a key."
    assert not [route for route in (*LOGIN_ROUTES, *PERSONAL) if route not in ROUTES]


MALFORMED = {
    "short": "sk_x",
    "other-form": "ghp_" + "x" * 46,
    "wrong-checksum": unknown_key()[:-1] + "_",
    "one-letter-off": unknown_key()[:-1] + chr(ord(unknown_key()[-1]) ^ 1),
    "not-ascii": "sk_\u00e9" + "x" * 45,
    "two-keys": f"{unknown_key()}, {unknown_key()}",
    "endless": "sk_" + "x" * 100_000,
}


@pytest.mark.parametrize("secret", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize(("method", "route"), NEEDING_A_KEY)
def test_a_malformed_key_is_rejected_without_a_query(
    method: str, route: str, secret: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    path = "/" + PARAMETER.sub("123456789012345678", route)
    with django_assert_num_queries(0):
        response = call(method, path, secret)
    assert (response.status_code, response.json()["code"]) == (401, "invalid_token")
    assert response.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (None, "missing_token"),
        ({}, "invalid_token"),
        ({"revoked_at": -1}, "revoked_token"),
        ({"expires_at": -1}, "expired_token"),
        ({"expires_at": -1, "revoked_at": -1}, "revoked_token"),
    ],
    ids=["no-key", "unknown", "revoked", "expired", "revoked-and-expired"],
)
@pytest.mark.parametrize(("method", "route"), NEEDING_A_KEY)
def test_every_call_needs_an_active_key(
    method: str, route: str, change: dict[str, int] | None, code: str, world: World
) -> None:
    secret = None if change is None else world.owner if change else unknown_key()
    if change:
        times = {name: timezone.now() + timedelta(seconds=seconds) for name, seconds in change.items()}
        ApiKey.objects.filter(client=world.job.client).update(**times)
    response = call(method, world.path(route), secret)
    assert (response.status_code, response.json()["code"]) == (401, code)
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert set(response.json()) == {"error", "code", "meta", "requestId"}


def test_every_operation_has_a_scope() -> None:
    assert {call for calls in SCOPES.values() for call in calls} == {call for call in CALLS if call[0] != "HEAD"}


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize(("method", "route"), CALLS)
def test_a_key_can_make_the_calls_of_its_scope(method: str, route: str, scope: Scope, world: World) -> None:
    ApiKey.objects.filter(client=world.job.client).update(scope=scope)
    needed = next(
        scope for scope, calls in SCOPES.items() if ("GET" if method == "HEAD" else method, route) in calls
    )
    response = call(method, world.path(RESOURCE + route), world.owner)
    code = response.json()["code"] if response.status_code >= 400 else ""
    if scope.includes(needed):
        assert (response.status_code, code) == OWN.get((method, route), (200, ""))
        return
    assert (response.status_code, code) == (403, "insufficient_scope")
    assert response.json()["meta"] == {"required": needed, "scope": scope}
    assert response.headers["WWW-Authenticate"] == f'Bearer error="insufficient_scope", scope="{needed}"'


@pytest.mark.parametrize(("method", "route"), CALLS)
def test_every_call_needs_an_allowed_address(method: str, route: str, world: World) -> None:
    ApiKey.objects.filter(client=world.job.client).update(addresses=["192.0.2.0/24", "2001:db8::/32"])
    response = call(method, world.path(RESOURCE + route), world.owner)
    assert (response.status_code, response.json()["code"]) == (403, "address_not_allowed")
    assert "192.0.2" not in response.content.decode()


@pytest.mark.parametrize(("method", "route"), CALLS)
def test_the_owner_can_make_every_call(method: str, route: str, world: World) -> None:
    response = call(method, world.path(RESOURCE + route), world.owner)
    code = response.json()["code"] if response.status_code >= 400 else ""
    assert (response.status_code, code) == OWN.get((method, route), (200, ""))


@pytest.mark.parametrize(("method", "route"), ABOUT_OWN_OBJECTS)
def test_another_accounts_object_looks_like_a_missing_one(method: str, route: str, world: World) -> None:
    path = world.path(RESOURCE + route)
    nowhere = "/" + RESOURCE + PARAMETER.sub("9" * 18, route)
    refused, unknown = (without_id(call(method, each, world.stranger)) for each in (path, nowhere))
    assert refused == unknown
    assert (refused[0], refused[1]["code"]) == (404, "not_found")


@pytest.mark.parametrize(("method", "route"), ABOUT_AN_OBJECT)
def test_a_malformed_id_is_not_found(method: str, route: str, world: World) -> None:
    for identifier in ("x", "-1", "1" * 400, "%00", "%0a", "1.5", "\u0661" * 18, "9" * 19):
        response = call(method, "/" + RESOURCE + PARAMETER.sub(identifier, route), world.owner)
        assert (response.status_code, response.json()["code"]) == (404, "not_found"), identifier


@pytest.mark.parametrize(("method", "route"), LISTS)
def test_a_list_shows_only_the_callers_objects(method: str, route: str, world: World) -> None:
    response = call(method, world.path(RESOURCE + route), world.stranger)
    assert response.status_code == 200
    assert [mark for mark in world.marks() if mark in response.content.decode()] == []
    assert response.headers.get("X-Active-Jobs", "0") == "0"


@pytest.mark.parametrize("route", WITHOUT_KEY)
def test_open_routes_ignore_keys(route: str, world: World) -> None:
    for secret in (None, world.owner, world.stranger, unknown_key(), "sk_x"):
        for method in READS:
            assert call(method, world.path(route), secret).status_code == OPEN[route], (method, secret)


@pytest.mark.parametrize("route", [*(RESOURCE + route for route in WITH_KEY), *WITHOUT_KEY])
def test_other_methods_return_405(route: str, world: World) -> None:
    allowed = READS if route in OPEN else (*methods_of(route.removeprefix(RESOURCE)),)
    for method in set(METHODS) - set(allowed):
        response = call(method, world.path(route), world.owner)
        assert (response.status_code, response.json()["code"]) == (405, "method_not_allowed"), method
        assert set(response.headers["Allow"].split(", ")) - {"HEAD"} == set(allowed) - {"HEAD"}


@pytest.mark.parametrize("route", ADMIN)
def test_the_admin_redirects_strangers_to_the_login(route: str, world: World) -> None:
    path = world.path(route.replace("^", "").replace("(?P<url>.*)$", "nowhere"))
    response = call("GET", path, world.owner)
    ways = {"admin/login/": "/accounts/login/", "admin/logout/": "/admin/"}
    assert (response.status_code, response.headers["Location"].split("?")[0]) == (
        302,
        ways.get(route, "/admin/login/"),
    )


@pytest.mark.parametrize("route", LOGIN_ROUTES)
def test_login_pages_are_open_to_everybody(route: str, browsers: dict[str, HttpClient]) -> None:
    statuses = tuple(browsers[who].get(address(route)).status_code for who in ("stranger", "owner"))
    assert statuses == LOGIN_ROUTES[route]


@pytest.mark.parametrize("route", PERSONAL)
def test_personal_pages_redirect_strangers_to_the_login(route: str, browsers: dict[str, HttpClient]) -> None:
    for method in ("get", "post"):
        response = getattr(browsers["stranger"], method)(address(route))
        assert (response.status_code, response.headers["Location"].split("?")[0]) == (302, "/accounts/login/")


@pytest.mark.parametrize("route", PAGES)
def test_account_pages_are_for_members_only(route: str, browsers: dict[str, HttpClient]) -> None:
    """Objects in the address do not exist, so the statuses depend on the account only."""
    path = address(route, account=browsers["owner"].defaults["ACCOUNT"])
    for method in ("get", "post"):
        stranger, outsider, viewer = (
            getattr(browsers[who], method)(path) for who in ("stranger", "outsider", "viewer")
        )
        assert (stranger.status_code, stranger.headers["Location"].split("?")[0]) == (302, "/accounts/login/")
        assert outsider.status_code == 404
        read = (403,) if route in FOR_OWNERS else (302,) if route in REDIRECTS else (200, 404, 405)
        assert viewer.status_code in (read if method == "get" else (FOR_VIEWERS.get(route, 403), 405))


@pytest.mark.parametrize("route", [route for route in PAGES if PARAMETER.findall(route)[1:]])
def test_pages_do_not_find_objects_of_other_accounts(route: str, browsers: dict[str, HttpClient]) -> None:
    """Neither the page nor its form exists for an object of another account."""
    objects = {name: OBJECTS[name](make_account()) for name in PARAMETER.findall(route)[1:]}
    path = address(route, account=browsers["owner"].defaults["ACCOUNT"], **objects)
    for method in ("get", "post"):
        assert getattr(browsers["owner"], method)(path, {"role": "viewer"}).status_code in (404, 405)
    assert {browsers["owner"].get(path).status_code, browsers["owner"].post(path).status_code} & {404}


def test_a_change_that_states_no_scope_needs_the_highest() -> None:
    operation = Operation(id="x", tag="x", summary="x", returns=ResponseSpec(description="x"))
    assert operation.required_scope("GET") == Scope.READ
    assert operation.required_scope("POST") == Scope.MANAGE
