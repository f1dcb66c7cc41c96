"""Unknown query parameters: endpoints of the API reject them, shared links ignore them.

The endpoints come from `tests/routes.py`, so tests cover a new one as soon as it exists.
"""

from typing import Any

import pytest
from django.test import Client as HttpClient

from jobs.models import Job
from simservice.api.operations import operation_of
from tests.factories import PROFILE
from tests.routes import READS, ROUTES, TEXTS, World, call, world

__all__ = ["world"]

pytestmark = pytest.mark.django_db

ENDPOINTS = [route for route in ROUTES if route.startswith("v1/")]
LINKS = [
    "share/<token:token>",
    "share/<token:token>/card.png",
    "share/<token:token>/<datafile:file>",
    "manifests/<token:token>",
    "artifacts/<token:token>",
    "docs",
    "docs/guides",
    "docs/guides/<slug:guide>",
    *TEXTS,
]


def methods_of(route: str) -> list[str]:
    """Return the methods that an endpoint accepts."""
    view = getattr(ROUTES[route], "view_class", None)
    names = ("get", "post", "put", "patch", "delete")
    posted = [name.upper() for name in names if hasattr(view, name)]
    return [*posted, "HEAD"] if "GET" in posted else posted or [*READS]


CALLS = [(method, route) for route in ENDPOINTS for method in methods_of(route)]


def refused(response: Any) -> list[str]:
    """Return the parameters that a response rejects."""
    assert response.status_code == 400
    if not response.content:
        return ["surprise"]  # a response to HEAD has no body
    assert response.json()["code"] == "validation_failed"
    return [issue["path"] for issue in response.json()["meta"]["issues"]]


@pytest.mark.parametrize(("method", "route"), CALLS)
def test_every_endpoint_rejects_unknown_parameters(method: str, route: str, world: World) -> None:
    for query in ("surprise=1", "surprise", "surprise=1&surprise=2"):
        assert refused(call(method, f"{world.path(route)}?{query}", world.owner)) == ["surprise"], query


@pytest.mark.parametrize("media_type", ["application/json", "text/plain"])
def test_both_forms_of_submission_reject_unknown_parameters(media_type: str, world: World) -> None:
    body = PROFILE if media_type == "text/plain" else {"build": {"channel": "latest"}, "profile": {"text": PROFILE}}
    headers = {"Authorization": f"Bearer {world.owner}"}
    query = "surprise=1" if media_type == "application/json" else "channel=latest&surprise=1"
    response = HttpClient().post(f"/v1/sim/jobs?{query}", body, content_type=media_type, headers=headers)
    assert refused(response) == ["surprise"]
    assert Job.objects.count() == 1


@pytest.mark.parametrize(("method", "route"), [pair for pair in CALLS if pair[0] == "GET"])
def test_a_repeated_parameter_is_rejected(method: str, route: str, world: World) -> None:
    view: Any = ROUTES[route]
    operation = operation_of(getattr(getattr(view, "view_class", None), "get", view))
    assert operation is not None
    for name in operation.query_names:
        assert refused(call(method, f"{world.path(route)}?{name}=1&{name}=1", world.owner)) == [name]


def test_an_invalid_key_is_rejected_before_the_parameters(world: World) -> None:
    for secret in (None, "sk_x"):
        assert call("GET", world.path("v1/sim/jobs?surprise=1"), secret).status_code == 401


@pytest.mark.parametrize("route", LINKS)
def test_links_ignore_tracking_parameters(route: str, world: World) -> None:
    for method in READS:
        assert call(method, f"{world.path(route)}?utm_source=newsletter", None).status_code == 200
