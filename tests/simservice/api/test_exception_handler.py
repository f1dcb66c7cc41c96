"""Responses of the API to a host that is not allowed, and while the database is unavailable."""

import pytest
from django.db import connection
from django.test import Client as HttpClient

from clients.models import ApiKey
from localstack.redis_server import free_port
from tests.conftest import Api

JOB = {"build": {"channel": "latest"}, "profile": {"text": "mage=x"}}


@pytest.fixture
def _no_database(key: tuple[ApiKey, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Close the connection and point it to a port on which no database listens."""
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
    monkeypatch.setitem(connection.settings_dict, "PORT", str(free_port()))


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_no_database")
@pytest.mark.parametrize("method", ["get", "post"])
def test_the_api_is_unavailable_without_a_database(api: Api, method: str) -> None:
    response = api.get("jobs/123456789012345678/status") if method == "get" else api.post("jobs", JOB)
    assert (response.status_code, response["Retry-After"]) == (503, "10")
    body = response.json()
    assert (body["code"], body["meta"]) == (
        "queue_unavailable",
        {"reason": "database_unavailable", "queueHealth": "unavailable"},
    )


@pytest.mark.parametrize("path", ["/v1/sim/jobs", "/docs"])
def test_a_host_that_is_not_allowed_is_named_as_the_problem(path: str) -> None:
    response = HttpClient().get(path, headers={"host": "elsewhere.example"})
    assert response.status_code == 400
    assert "not in ALLOWED_HOSTS" in response.content.decode()
    assert "elsewhere" not in response.content.decode()


@pytest.mark.django_db(transaction=True)
@pytest.mark.direct("it ends the process of its own connection, which a pooler could give to the other one")
def test_the_api_recovers_when_the_database_is_back(api: Api) -> None:
    assert api.get("builds").status_code == 200
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (backend,) = cursor.fetchone()
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [backend])
    other.close()
    assert {api.get("builds").status_code for _ in range(2)} <= {200, 503}
    connection.close()
    assert api.get("builds").status_code == 200
