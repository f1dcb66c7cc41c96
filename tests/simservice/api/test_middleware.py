"""Maintenance, and a database that leaves in the middle of a request."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError
from django.test import Client as HttpClient

from jobs import submission
from tests.conftest import Api


@pytest.mark.parametrize("path", ["/v1/sim/builds", "/v1/sim/jobs", "/v1/nowhere"])
def test_maintenance_is_answered_before_anybody_is_known(settings: Any, path: str) -> None:
    settings.MAINTENANCE_SECONDS = 90
    answer = HttpClient().get(path)
    assert (answer.status_code, answer["Retry-After"]) == (503, "90")
    assert (answer.json()["code"], answer.json()["meta"]) == ("api_maintenance", {"retryAfterSeconds": 90})
    assert answer["X-Request-Id"] == answer.json()["requestId"]


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/metrics", 200), ("/", 200)])
def test_maintenance_is_of_the_api_alone(settings: Any, path: str, status: int) -> None:
    settings.MAINTENANCE_SECONDS, settings.METRICS_TOKEN = 90, "t"
    assert HttpClient().get(path, headers={"authorization": "Bearer t"}).status_code == status


@pytest.mark.django_db
def test_without_maintenance_the_api_answers(api: Api) -> None:
    assert api.get("builds").status_code == 200


@pytest.fixture
def failing_headers(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], None]:
    """Make the count behind the last headers of an answer fail."""

    def fail_with(error: Exception) -> None:
        def fail(account: object) -> int:
            raise error

        monkeypatch.setattr(submission, "active_jobs", fail)

    return fail_with


@pytest.mark.django_db
@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_database_that_leaves_late_is_answered_in_the_envelope(
    api: Api, failing_headers: Callable[[Exception], None], error: type[Exception]
) -> None:
    failing_headers(error())
    answer = api.get("builds")
    assert (answer.status_code, answer.json()["code"]) == (503, "queue_unavailable")


@pytest.mark.django_db
def test_a_mistake_of_ours_stays_one(api: Api, failing_headers: Callable[[Exception], None]) -> None:
    failing_headers(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        api.get("builds")
