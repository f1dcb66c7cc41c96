"""Every route of the URL configuration, by the credentials that it needs.

Routes are found by walking the configuration, so tests cover a new one as soon as it exists. Routes under the API's
resource need a key, and those with an id show an object of one account. Routes below `dashboard/` need a member of
the account. All others are listed in OPEN, TOOLS, LOGIN_ROUTES or PERSONAL.
"""

import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client as HttpClient
from django.urls import URLPattern, URLResolver, get_resolver

from billing.models import Account
from clients.accounts import default_client
from jobs.artifacts import artifact_files
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Job
from tests.factories import (
    make_account,
    make_client,
    make_event,
    make_export,
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

# The documentation as text.
TEXTS = (
    "llms.txt",
    "llms-full.txt",
    "docs.md",
    "docs/guides/<slug:guide>.md",
    "docs/<slug:page>.md",
    "docs/operations/<slug:resource>.md",
    "docs/objects/<slug:name>.md",
)
# Routes that ignore keys, with the status of a read.
OPEN = {
    "": 200,
    "example": 200,
    "share/<token:token>": 200,
    "share/<token:token>/card.png": 200,
    "share/<token:token>/<datafile:file>": 200,
    "share/<token:token>/ranking.csv": 404,  # the job has no result
    "compare": 200,
    "manifests/<token:token>": 200,
    "artifacts/<token:token>": 200,
    "healthz": 200,
    "readyz": 503,  # there is no worker in these tests
    "v1/openapi.json": 200,
    "docs": 200,
    "docs/guides": 200,
    "docs/guides/<slug:guide>": 200,
    "docs/<slug:page>": 200,
    "docs/operations/<slug:resource>": 200,
    "docs/objects/<slug:name>": 200,
    "openapi.json": 302,
    **dict.fromkeys(TEXTS, 200),
    "static/<path:name>": 404,
    "styleguide": 404,  # except for staff
    "metrics": 404,  # unless a deployment opens it
    "api/job/<token:token>": 200,
    "reports/<token:token>/data.json": 302,
    "reports/<token:token>/data.full.json": 302,
    "reports/<token:token>/data.csv": 302,
    "reports/<token:token>/input.txt": 302,
    "reports/<token:token>/output.txt": 302,
    "reports/<token:token>/index.html": 302,
    "simbot/report/<token:token>": 302,
    "simbot/report/<token:token>/data.json": 302,
}
# Routes outside the API's resource that need a key. tests/jobs/mcp tests what a key may do there.
TOOLS = {"mcp"}
# Routes outside the resource that need a key: tests/jobs/api/test_compatible.py
COMPATIBLE = {"sim", "api/job/<str:job_id>"}
# Login pages, with the status for a stranger and for a logged-in user.
LOGIN_ROUTES = {
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
# Personal pages, which redirect strangers to the login.
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
    "accounts/data/",
    "accounts/data/exports/<id:export_id>/",
    "accounts/delete/",
    "dashboard/",
    "share/<token:token>/run",
}
# Factories of an account's objects, by their name in routes.
OBJECTS: dict[str, Callable[[Account], object]] = {
    "client_id": lambda account: make_client(account).pk,
    "job_id": lambda account: make_job(default_client(account)).pk,
    "key_id": lambda account: make_key(account)[0].pk,
    "member_id": lambda account: make_member(account).pk,
    "invitation_id": lambda account: make_invitation(account)[0].pk,
    "export_id": lambda account: make_export(account).pk,
    "name": lambda account: make_event(make_client(account)).name,
}
# Objects that belong to no account.
SHARED = {"builds/<str:build_id>"}


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
    """Return the methods that a route of the API accepts."""
    view = ROUTES[RESOURCE + route].view_class  # type: ignore[attr-defined]
    return [name.upper() for name in view.http_method_names if hasattr(view, name) and name != "options"]


CALLS = [(method, route) for route in WITH_KEY for method in methods_of(route)]
# Every call that needs a key, with its whole route
NEEDING_A_KEY = [*((method, RESOURCE + route) for method, route in CALLS), *(("POST", route) for route in TOOLS)]
ABOUT_AN_OBJECT = [(method, route) for method, route in CALLS if PARAMETER.search(route)]
ABOUT_OWN_OBJECTS = [(method, route) for method, route in ABOUT_AN_OBJECT if route not in SHARED]
LISTS = [(method, route) for method, route in CALLS if method == "GET" and not PARAMETER.search(route)]


@dataclass(frozen=True)
class World:
    """An ended job, the key of its account, and the key of another account."""

    job: Job
    artifact: Artifact
    owner: str
    stranger: str

    def path(self, route: str) -> str:
        """Return the address of a route for this job and its artifact."""
        assert self.job.build is not None
        token = self.artifact.token if route.startswith("artifacts/") else self.job.share_token
        values = {
            "job_id": self.job.pk,
            "artifact_id": self.artifact.pk,
            "build_id": self.job.build.pk,
            "token": token,
            "file": "data.json",
            "guide": "tutorial",
            "page": "errors",
            "resource": "jobs",
            "name": "Job",
        }
        return "/" + PARAMETER.sub(lambda match: str(values.get(match[1], "1")), route)

    def marks(self) -> list[str]:
        """Return texts that no response to a stranger may contain."""
        return [str(self.job.pk), str(self.artifact.pk), self.job.share_token, self.artifact.token, "a secret"]


@pytest.fixture(scope="module")
def world(shared_rows: None) -> World:
    """An ended job with an artifact, and two callers."""
    (key, owner), (_, stranger) = make_key(), make_key()
    job = make_running_job(client=key.client, metadata={"note": "a secret"})
    artifact = artifact_files.store(job, Artifact.Kind.JSON_REPORT, io.BytesIO(b"{}"))
    artifact.save(force_insert=True)
    outcome = Outcome(status=Status.COMPLETED, sim_duration_ms=1, summary={"metric": "dps", "mainActor": None})
    assert job_moves.finish(job, outcome)
    return World(Job.objects.get(pk=job.pk), artifact, owner, stranger)


def call(method: str, path: str, secret: str | None = None) -> Any:
    """Call an address with or without a key."""
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    response: Any = HttpClient().generic(method, path, "{}", content_type="application/json", headers=headers)
    if response.streaming:
        body = b"".join(response.streaming_content)
        assert body == b"{}" or json.loads(body).keys() == {"simbot"}
    return response


def address(route: str, **values: Any) -> str:
    """Return the address of a page, with matching values for its parameters."""
    known = {"file": "data.json", "key": "1-abc", "uidb36": "1", "token": "x" * 22, **values}
    plain = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"<\1>", route).replace("^", "").replace("$", "")
    return "/" + PARAMETER.sub(lambda match: str(known.get(match[1], "1")), plain)


@pytest.fixture(scope="module")
def logged_in(shared_rows: None) -> dict[str, HttpClient]:
    """The browsers of `browsers` in the state that each test begins with."""
    account = make_account()
    people = {role: make_member(account, role=role) for role in ("owner", "member", "viewer")}
    people["outsider"] = make_member()
    browsers = {role: HttpClient() for role in people} | {"stranger": HttpClient()}
    for role, member in people.items():
        browsers[role].force_login(member.user)
    for browser in browsers.values():
        browser.defaults["ACCOUNT"] = account.name
    return browsers


@pytest.fixture
def browsers(logged_in: dict[str, HttpClient]) -> dict[str, HttpClient]:
    """Browsers of each role of an account, of another account's owner, and of a stranger."""
    fresh = {who: HttpClient(ACCOUNT=browser.defaults["ACCOUNT"]) for who, browser in logged_in.items()}
    for who, browser in fresh.items():
        browser.cookies.update(logged_in[who].cookies)
    return fresh


@pytest.fixture(scope="module")
def logged_in_operator(shared_rows: None) -> HttpClient:
    """The browser of `admin_browser` in the state that each test begins with."""
    browser = HttpClient()
    browser.force_login(User.objects.create_superuser("admin browser"))
    return browser


@pytest.fixture
def admin_browser(logged_in_operator: HttpClient) -> HttpClient:
    """The browser of an operator who may do everything, without a second factor."""
    browser = HttpClient()
    browser.cookies.update(logged_in_operator.cookies)
    assert "_auth_user_id" in browser.session
    return browser
