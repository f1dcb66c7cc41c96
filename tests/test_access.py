"""Who may call what: every route of the URL configuration, with every kind of credential.

Routes are found by walking the configuration, so a new one is judged as soon as it exists. Under the API's resource
a route needs a key, and one with an id in it shows an object of one account. Below `dashboard/` a route needs a
user who is a member of the account in it. Any other route must stand in OPEN or PERSONAL.
"""

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client as HttpClient
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from billing.models import Account
from clients.accounts import default_client
from clients.keys import ALPHABET, PREFIX, checksum
from clients.models import ApiKey
from jobs import artifacts, lifecycle
from jobs.enums import Status
from jobs.lifecycle import Outcome
from jobs.models import Artifact, Job
from tests.factories import (
    make_account,
    make_client,
    make_event,
    make_invitation,
    make_job,
    make_key,
    make_member,
    make_running_job,
)

RESOURCE = f"v1/{settings.API_RESOURCE}/"
READS = ("GET", "HEAD")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FOO")
PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")

# What needs no key and takes no notice of one: the status of a read.
OPEN = {
    "": 200,
    "share/<token:token>": 200,
    "manifests/<token:token>": 200,
    "artifacts/<token:token>": 200,
    "healthz": 200,
    "readyz": 503,  # there is no worker in these tests
    "v1/openapi.json": 200,
    "docs": 200,
    "metrics": 404,  # unless a deployment opens it
}
# Pages of logging in: the status of a read by a stranger, and by somebody who is logged in.
ENTRANCE = {
    "accounts/login/": (200, 302),
    "accounts/signup/": (200, 302),
    "accounts/signup/<str:token>/": (404, 404),
    "accounts/logout/": (302, 200),
    "accounts/inactive/": (200, 200),
    "accounts/confirm-email/": (200, 200),
    r"accounts/^confirm-email/(?P<key>[-:\w]+)/$": (200, 200),
    "accounts/password/reset/": (200, 200),
    "accounts/password/reset/done/": (200, 200),
    "accounts/password/reset/key/done/": (200, 200),
    r"accounts/^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$": (200, 200),
    "accounts/login/code/confirm/": (302, 302),
    "accounts/2fa/authenticate/": (302, 302),
    "invitations/<token:token>": (404, 404),
}
# Pages of a user's own, which send a stranger to log in.
PERSONAL = {
    "accounts/reauthenticate/",
    "accounts/email/",
    "accounts/password/change/",
    "accounts/password/set/",
    "accounts/2fa/",
    "accounts/2fa/reauthenticate/",
    "accounts/2fa/totp/activate/",
    "accounts/2fa/totp/deactivate/",
    "accounts/2fa/recovery-codes/",
    "accounts/2fa/recovery-codes/generate/",
    "accounts/2fa/recovery-codes/download/",
    "accounts/profile/",
    "accounts/sessions/",
    "dashboard/",
}
# What a viewer may do.
FOR_VIEWERS = {"dashboard/<slug:account>/people/leave": 302}
# What only an owner may read.
FOR_OWNERS = {"dashboard/<slug:account>/audit", "dashboard/<slug:account>/people/<id:member_id>/remove"}
# An object of an account, by the name that routes have for it.
OBJECTS: dict[str, Callable[[Account], object]] = {
    "client_id": lambda account: make_client(account).pk,
    "job_id": lambda account: make_job(default_client(account)).pk,
    "key_id": lambda account: make_key(account)[0].pk,
    "member_id": lambda account: make_member(account).pk,
    "invitation_id": lambda account: make_invitation(account)[0].pk,
    "name": lambda account: make_event(make_client(account)).name,
}
# Objects that belong to no account.
SHARED = {"builds/<str:build_id>"}
# What the owner is told of an ended job where it is not a success.
OWN: dict[tuple[str, str], tuple[int, str]] = {
    ("POST", "jobs"): (400, "validation_failed"),
    ("POST", "jobs/<str:job_id>/cancel"): (409, "job_not_cancellable"),
}

pytestmark = pytest.mark.django_db


def walk(patterns: list[URLPattern | URLResolver], prefix: str = "") -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield every route of a URL configuration with its view."""
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from walk(pattern.url_patterns, route)
        else:
            yield route, pattern.callback


ROUTES = dict(walk(get_resolver().url_patterns))
ADMIN = [route for route in ROUTES if route.startswith("admin/")]
WITH_KEY = [route.removeprefix(RESOURCE) for route in ROUTES if route.startswith(RESOURCE)]
WITHOUT_KEY = [route for route in OPEN if route in ROUTES]
PAGES = [route for route in ROUTES if route.startswith("dashboard/<slug:account>/")]


def methods_of(route: str) -> list[str]:
    """Return the methods that a route of the API answers."""
    view = ROUTES[RESOURCE + route].view_class  # type: ignore[attr-defined]
    return [name.upper() for name in view.http_method_names if hasattr(view, name) and name != "options"]


CALLS = [(method, route) for route in WITH_KEY for method in methods_of(route)]
ABOUT_AN_OBJECT = [(method, route) for method, route in CALLS if PARAMETER.search(route)]
ABOUT_OWN_OBJECTS = [(method, route) for method, route in ABOUT_AN_OBJECT if route not in SHARED]
LISTS = [(method, route) for method, route in CALLS if method == "GET" and not PARAMETER.search(route)]


@dataclass(frozen=True)
class World:
    """An ended job of one account, and callers."""

    job: Job
    artifact: Artifact
    owner: str
    stranger: str

    def path(self, route: str) -> str:
        """Return the address of a route, for this job and what belongs to it."""
        assert self.job.build is not None
        token = self.artifact.token if route.startswith("artifacts/") else self.job.share_token
        values = {
            "job_id": self.job.pk,
            "artifact_id": self.artifact.pk,
            "build_id": self.job.build.pk,
            "token": token,
        }
        return "/" + PARAMETER.sub(lambda match: str(values.get(match[1], "1")), route)

    def marks(self) -> list[str]:
        """Return what no answer to a stranger may contain."""
        return [str(self.job.pk), str(self.artifact.pk), self.job.share_token, self.artifact.token, "a secret"]


@pytest.fixture
def world() -> World:
    (key, owner), (_, stranger) = make_key(), make_key()
    job = make_running_job(client=key.client, metadata={"note": "a secret"})
    artifact = artifacts.store(job, Artifact.Kind.JSON_REPORT, io.BytesIO(b"{}"))
    artifact.save(force_insert=True)
    ended = Outcome(status=Status.COMPLETED, sim_duration_ms=1, summary={"metric": "dps", "mainActor": None})
    assert lifecycle.finish(job, ended)
    return World(Job.objects.get(pk=job.pk), artifact, owner, stranger)


def call(method: str, path: str, secret: str | None = None) -> Any:
    """Call an address with a key, or none."""
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    answer: Any = HttpClient().generic(method, path, "{}", content_type="application/json", headers=headers)
    if answer.streaming:
        assert b"".join(answer.streaming_content) == b"{}"
    return answer


def without_id(answer: Any) -> tuple[int, dict[str, Any]]:
    """Return an error's status and all of its body but the request's own id."""
    return answer.status_code, {**answer.json(), "requestId": ""}


def test_every_route_is_expected() -> None:
    judged = {*OPEN, *ENTRANCE, *PERSONAL, *PAGES, *ADMIN, *(RESOURCE + route for route in WITH_KEY)}
    unexpected = [route for route in ROUTES if route not in judged]
    assert not unexpected, f"{unexpected}: say in OPEN of tests/test_access.py what a caller without a key gets."
    assert not [route for route in (*ENTRANCE, *PERSONAL) if route not in ROUTES]


def well_formed() -> str:
    """Return a key that was never given out."""
    body = PREFIX + ALPHABET[:40]
    return body + checksum(body)


MALFORMED = {
    "short": "sk_x",
    "other-form": "ghp_" + "x" * 46,
    "wrong-checksum": well_formed()[:-1] + "_",
    "one-letter-off": well_formed()[:-1] + chr(ord(well_formed()[-1]) ^ 1),
    "not-ascii": "sk_\u00e9" + "x" * 45,
    "two-keys": f"{well_formed()}, {well_formed()}",
    "endless": "sk_" + "x" * 100_000,
}


@pytest.mark.parametrize("secret", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize(("method", "route"), CALLS)
def test_a_malformed_key_is_refused_without_a_query(
    method: str, route: str, secret: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    path = "/" + RESOURCE + PARAMETER.sub("123456789012345678", route)
    with django_assert_num_queries(0):
        answer = call(method, path, secret)
    assert (answer.status_code, answer.json()["code"]) == (401, "invalid_token")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


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
@pytest.mark.parametrize(("method", "route"), CALLS)
def test_without_a_key_that_serves_nothing_is_answered(
    method: str, route: str, change: dict[str, int] | None, code: str, world: World
) -> None:
    secret = None if change is None else world.owner if change else well_formed()
    if change:
        times = {name: timezone.now() + timedelta(seconds=seconds) for name, seconds in change.items()}
        ApiKey.objects.filter(client=world.job.client).update(**times)
    path = world.path(RESOURCE + route)
    answer = call(method, path, secret)
    assert (answer.status_code, answer.json()["code"]) == (401, code)
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert set(answer.json()) == {"error", "code", "meta", "requestId"}


@pytest.mark.parametrize(("method", "route"), CALLS)
def test_the_owner_is_answered(method: str, route: str, world: World) -> None:
    answer = call(method, world.path(RESOURCE + route), world.owner)
    code = answer.json()["code"] if answer.status_code >= 400 else ""
    assert (answer.status_code, code) == OWN.get((method, route), (200, ""))


@pytest.mark.parametrize(("method", "route"), ABOUT_OWN_OBJECTS)
def test_another_accounts_object_is_answered_like_none(method: str, route: str, world: World) -> None:
    path = world.path(RESOURCE + route)
    nowhere = "/" + RESOURCE + PARAMETER.sub("9" * 18, route)
    refused, unknown = (without_id(call(method, each, world.stranger)) for each in (path, nowhere))
    assert refused == unknown
    assert (refused[0], refused[1]["code"]) == (404, "not_found")


@pytest.mark.parametrize(("method", "route"), ABOUT_AN_OBJECT)
def test_what_is_no_id_names_nothing(method: str, route: str, world: World) -> None:
    for identifier in ("x", "-1", "1" * 400, "%00", "%0a", "1.5", "\u0661" * 18, "9" * 19):
        answer = call(method, "/" + RESOURCE + PARAMETER.sub(identifier, route), world.owner)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), identifier


@pytest.mark.parametrize(("method", "route"), LISTS)
def test_a_list_shows_the_callers_own(method: str, route: str, world: World) -> None:
    seen = call(method, world.path(RESOURCE + route), world.stranger)
    assert seen.status_code == 200
    assert [mark for mark in world.marks() if mark in seen.content.decode()] == []
    assert seen.headers.get("X-Active-Jobs", "0") == "0"


@pytest.mark.parametrize("route", WITHOUT_KEY)
def test_open_routes_take_no_notice_of_a_key(route: str, world: World) -> None:
    for secret in (None, world.owner, world.stranger, well_formed(), "sk_x"):
        for method in READS:
            assert call(method, world.path(route), secret).status_code == OPEN[route], (method, secret)


@pytest.mark.parametrize("route", [*(RESOURCE + route for route in WITH_KEY), *WITHOUT_KEY])
def test_other_methods_are_refused(route: str, world: World) -> None:
    answered = READS if route in OPEN else (*methods_of(route.removeprefix(RESOURCE)),)
    for method in set(METHODS) - set(answered):
        answer = call(method, world.path(route), world.owner)
        assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed"), method
        assert set(answer.headers["Allow"].split(", ")) - {"HEAD"} == set(answered) - {"HEAD"}


@pytest.mark.parametrize("route", ADMIN)
def test_the_admin_asks_strangers_to_log_in(route: str, world: World) -> None:
    path = world.path(route.replace("^", "").replace("(?P<url>.*)$", "nowhere"))
    answer = call("GET", path, world.owner)
    ways = {"admin/login/": "/accounts/login/", "admin/logout/": "/admin/"}
    assert (answer.status_code, answer.headers["Location"].split("?")[0]) == (302, ways.get(route, "/admin/login/"))


def address(route: str, **values: Any) -> str:
    """Return the address of a page of people: in a pattern, a text that fits."""
    known = {"key": "1-abc", "uidb36": "1", "token": "x" * 22, **values}
    plain = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"<\1>", route).replace("^", "").replace("$", "")
    return "/" + PARAMETER.sub(lambda match: str(known.get(match[1], "1")), plain)


@pytest.fixture
def browsers() -> dict[str, HttpClient]:
    """Browsers of an account's people, of another account's owner, and of a stranger."""
    account = make_account()
    people = {role: make_member(account, role=role) for role in ("owner", "member", "viewer")}
    people["outsider"] = make_member()
    browsers = {role: HttpClient() for role in people} | {"stranger": HttpClient()}
    for role, place in people.items():
        browsers[role].force_login(place.user)
    for browser in browsers.values():
        browser.defaults["ACCOUNT"] = account.name
    return browsers


@pytest.mark.parametrize("route", ENTRANCE)
def test_pages_of_logging_in_answer_everybody(route: str, browsers: dict[str, HttpClient]) -> None:
    statuses = tuple(browsers[who].get(address(route)).status_code for who in ("stranger", "owner"))
    assert statuses == ENTRANCE[route]


@pytest.mark.parametrize("route", PERSONAL)
def test_a_users_own_pages_ask_strangers_to_log_in(route: str, browsers: dict[str, HttpClient]) -> None:
    for method in ("get", "post"):
        answer = getattr(browsers["stranger"], method)(address(route))
        assert (answer.status_code, answer.headers["Location"].split("?")[0]) == (302, "/accounts/login/")


@pytest.mark.parametrize("route", PAGES)
def test_an_accounts_page_is_for_its_members(route: str, browsers: dict[str, HttpClient]) -> None:
    """Objects in the address do not exist here: what they are told comes from the account alone."""
    path = address(route, account=browsers["owner"].defaults["ACCOUNT"])
    for method in ("get", "post"):
        stranger, outsider, viewer = (
            getattr(browsers[who], method)(path) for who in ("stranger", "outsider", "viewer")
        )
        assert (stranger.status_code, stranger.headers["Location"].split("?")[0]) == (302, "/accounts/login/")
        assert outsider.status_code == 404
        read = (403,) if route in FOR_OWNERS else (200, 404, 405)
        assert viewer.status_code in (read if method == "get" else (FOR_VIEWERS.get(route, 403), 405))


@pytest.mark.parametrize("route", [route for route in PAGES if PARAMETER.findall(route)[1:]])
def test_another_accounts_objects_are_not_found_on_a_page(route: str, browsers: dict[str, HttpClient]) -> None:
    """An owner names an object of another account: the page, and what its form would do, is not there."""
    objects = {name: OBJECTS[name](make_account()) for name in PARAMETER.findall(route)[1:]}
    path = address(route, account=browsers["owner"].defaults["ACCOUNT"], **objects)
    for method in ("get", "post"):
        assert getattr(browsers["owner"], method)(path, {"role": "viewer"}).status_code in (404, 405)
    assert {browsers["owner"].get(path).status_code, browsers["owner"].post(path).status_code} & {404}
