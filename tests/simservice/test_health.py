"""Whether the service says rightly that it can do its work."""

import pytest
from django.test import Client as HttpClient

from simservice import presence


def ready() -> tuple[int, dict[str, object]]:
    """Ask for readiness."""
    answer = HttpClient().get("/readyz")
    return answer.status_code, answer.json()


def test_the_process_lives() -> None:
    assert HttpClient().get("/healthz").status_code == 200


@pytest.mark.django_db
def test_it_is_ready_with_a_simulation_worker_alive() -> None:
    presence.report("webhooks@here")
    assert ready() == (503, {"status": "unavailable", "database": True, "redis": True, "worker": False})
    presence.report("sim@here")
    assert ready() == (200, {"status": "ok", "database": True, "redis": True, "worker": True})


@pytest.mark.django_db
def test_a_worker_not_heard_of_for_a_while_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    presence.report("sim@here")
    monkeypatch.setattr(presence, "ALIVE_SECONDS", -1)
    assert ready()[0] == 503
