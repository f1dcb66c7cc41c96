"""Hostile values of every GET parameter of every route: none causes an internal error.

Routes come from the URL configuration, parameters from what each view looks up, and those of the admin from the
fields of its models, so the tests also cover new ones.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group
from django.db import connection as database
from django.db import models
from django.http import QueryDict
from django.test import Client as HttpClient
from django.urls import reverse
from django.utils import timezone

from billing import ledger
from billing.models import GrantReason
from clients.audit import COMMAND_LINE
from clients.models import Membership
from jobs.queue import closures
from privacy.models import AccountDeletion
from simservice.api.operations import operation_of
from tests.factories import make_export, make_invitation, make_member, make_running_job
from tests.routes import (
    ADMIN,
    LOGIN_ROUTES,
    OPEN,
    PAGES,
    PERSONAL,
    RESOURCE,
    ROUTES,
    WITH_KEY,
    World,
    address,
    admin_browser,
    browsers,
    logged_in,
    logged_in_operator,
    world,
)
from tests.webhooks.helpers import make_event_in

__all__ = ["admin_browser", "browsers", "logged_in", "logged_in_operator", "world"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:.*received a naive datetime"),
]

VALUES = [
    "",
    "%00",
    "%ED%A0%80",
    "%FF",
    "%",
    "[]",
    "-1",
    "9" * 19,
    "1e999",
    "http://[::1",
    "//[",
    "2026-99-99",
    "0001-01-01",
    "9999-12-31T23:59:59%2B00:00",
    "99999-01-01",
    "x" * 3000,
    "a%00b",
]
# Parameters that a page may look up only under a condition
COMMON = {"next", "after"}
OF_THE_ADMIN = {"q", "o", "e", "p", "all", "_popup", "_to_field", "_changelist_filters"}
OF_COMPLETIONS = {"app_label", "model_name", "field_name", "term"}
MOMENTS = ("gte", "lt", "year", "month", "day")
MODELS = sorted(admin.site._registry, key=lambda model: model._meta.label)
LABELS = {model._meta.label_lower for model in MODELS}
# Pages that nobody can open, because most objects cannot be added or deleted in the admin
CLOSED = re.compile(r".*/(add|delete)/|admin/(autocomplete/|logout/|r/.*|\(\?P<url>\.\*\)\$)")


@contextmanager
def recorded(names: set[str]) -> Iterator[None]:
    """Record the names of the parameters that views look up in the block."""
    with pytest.MonkeyPatch.context() as patch:
        for method in ("get", "getlist", "__getitem__", "__contains__"):
            original = getattr(QueryDict, method)

            def record(self: QueryDict, name: str, *rest: Any, original: Any = original) -> Any:
                names.add(name)
                return original(self, name, *rest)

            patch.setattr(QueryDict, method, record)
        yield


def failures(browser: HttpClient, path: str, names: Iterable[str], **headers: Any) -> list[str]:
    """Return the queries of a path that cause an internal error."""
    browser.raise_request_exception = False
    queries = [f"{name}={value}" for name in sorted(names) for value in VALUES]
    queries += [f"{name}=1&{name}=%00" for name in sorted(names)]
    found = []
    for query in queries:
        # Keeps PostgreSQL from ending the test's transaction as idle.
        with database.cursor() as cursor:
            cursor.execute("SELECT 1")
        response: Any = browser.get(f"{path}?{query}", headers=headers)
        response.getvalue()
        if response.status_code >= 500:
            found.append(query[:100])
    return found


def looked_up(browser: HttpClient, path: str) -> set[str]:
    """Return the names of the parameters that a page reads."""
    names: set[str] = set()
    with recorded(names):
        response: Any = browser.get(path)
        response.getvalue()
    return names | COMMON


@pytest.mark.parametrize("route", sorted({*LOGIN_ROUTES, *PERSONAL} & ROUTES.keys()))
def test_pages_of_people(route: str, browsers: dict[str, HttpClient]) -> None:
    for who in ("stranger", "owner"):
        path = address(route)
        assert failures(browsers[who], path, looked_up(browsers[who], path)) == []


@pytest.mark.parametrize("route", PAGES)
def test_pages_of_accounts(route: str, browsers: dict[str, HttpClient]) -> None:
    owner = browsers["owner"]
    path = address(route, account=owner.defaults["ACCOUNT"])
    assert failures(owner, path, looked_up(owner, path)) == []


# Returns 503 in tests, because no worker is running.
@pytest.mark.parametrize("route", sorted(OPEN.keys() - {"readyz"}))
def test_public_routes(route: str, world: World) -> None:
    path = world.path(route)
    assert failures(HttpClient(), path, looked_up(HttpClient(), path)) == []


@pytest.mark.parametrize("route", WITH_KEY)
def test_endpoints(route: str, world: World) -> None:
    view: Any = ROUTES[RESOURCE + route]
    operation = operation_of(getattr(view.view_class, "get", view))
    names = {"surprise", *(operation.query_names if operation else ())}
    bearer = f"Bearer {world.owner}"
    assert failures(HttpClient(), world.path(RESOURCE + route), names, authorization=bearer) == []


def lookups(model: type[models.Model]) -> Iterator[str]:
    """Yield the lookups that a filter of the admin can have."""
    for field in model._meta.concrete_fields:
        yield field.name
        yield from (f"{field.name}__{lookup}" for lookup in ("range", "in", "contains", "has_key"))
        if isinstance(field, models.DateField):
            yield from (f"{field.name}__{part}" for part in MOMENTS)
    for listed in admin.site._registry[model].list_filter:
        if isinstance(listed, type) and (name := getattr(listed, "parameter_name", None)):
            yield name


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_lists_of_the_admin(
    model: type[models.Model], world: World, admin_browser: HttpClient, settings: Any
) -> None:
    settings.ADMIN_REQUIRES_MFA = False
    path = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    names = {*looked_up(admin_browser, path), *lookups(model), *OF_THE_ADMIN, "pk__in"}
    assert failures(admin_browser, path, names) == []


@pytest.fixture(scope="module")
def admin_rows(world: World, logged_in: dict[str, HttpClient]) -> World:
    """The world, with at least one object of each model of the admin."""
    owner = Membership.objects.filter(account__name=logged_in["owner"].defaults["ACCOUNT"], role="owner").get()
    make_running_job()
    make_invitation(owner.account)
    make_export(owner.account)
    make_event_in("failed", days_ago=0)
    ledger.grant(owner.account, 5, reason=GrantReason.GRANT_BETA)
    AccountDeletion.objects.create(account=make_member().account, due_at=timezone.now())
    Group.objects.create(name="support")
    Authenticator.objects.create(user=owner.user, type=Authenticator.Type.TOTP, data={})
    UserSession.objects.create(user=owner.user, ip="127.0.0.1", session_key="x", user_agent="x")
    closures.begin(host="sim-1", by=COMMAND_LINE)
    return world


def admin_address(route: str, world: World) -> str:
    """Return the address of a page of the admin, with the ids of existing objects."""
    ids = {"job_id": world.job.pk, "account_id": world.job.account_id, "lane": "high", "host": "sim-1"}
    label = ".".join(route.split("/")[1:3])
    if label in LABELS:
        ids["object_id"] = ids["id"] = apps.get_model(label)._default_manager.latest("pk").pk
    return address(route.replace("(?P<url>.*)", "nowhere"), **ids, app_label="jobs")


@pytest.mark.parametrize("route", ADMIN)
def test_pages_of_the_admin(route: str, admin_rows: World, admin_browser: HttpClient, settings: Any) -> None:
    settings.ADMIN_REQUIRES_MFA = False
    path = admin_address(route, admin_rows)
    assert CLOSED.fullmatch(route) or admin_browser.get(path).status_code < 400
    names = looked_up(admin_browser, path) | OF_COMPLETIONS
    assert failures(admin_browser, path, names) == []


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_ids_in_addresses_of_the_admin(model: type[models.Model], admin_browser: HttpClient, settings: Any) -> None:
    settings.ADMIN_REQUIRES_MFA = False
    admin_browser.raise_request_exception = False
    for value in filter(None, VALUES):
        for page in ("change", "history"):
            path = f"/admin/{model._meta.label_lower.replace('.', '/')}/{value}/{page}/"
            assert admin_browser.get(path).status_code < 500, path


@pytest.mark.parametrize("route", sorted(LOGIN_ROUTES.keys() & ROUTES.keys()))
def test_posted_addresses_of_the_next_page(route: str, browsers: dict[str, HttpClient]) -> None:
    for who in ("stranger", "owner"):
        browsers[who].raise_request_exception = False
        for value in ("http://[::1", "//[", "\0", "x" * 3000, "https://evil.example/"):
            response = browsers[who].post(address(route), {"next": value, "login": "a", "password": "b"})
            assert response.status_code < 500, value
