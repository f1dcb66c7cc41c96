"""The traffic of the busiest requests: statements, round trips to PostgreSQL and commands to Redis."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from clients.models import ApiKey
from jobs.models import Job
from jobs.queue import announcements
from tests.conftest import Api
from tests.factories import make_job
from tests.jobs.api.bodies import BODY, only_in
from tests.redis_commands import redis_commands
from tests.statements import Traffic, traffic

pytestmark = [pytest.mark.django_db(transaction=True), only_in("C")]


@pytest.fixture(autouse=True)
def _without_announcement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the announcement, which has tests of its own."""
    monkeypatch.setattr(announcements, "announce", lambda _: None)


def measured(request: Callable[[], Any], *, status: int = 200) -> tuple[Traffic, int]:
    """Return the traffic of a request and its number of Redis commands, without the first use of a connection."""
    assert request().status_code == status
    with traffic() as recorded, redis_commands() as commands:
        assert request().status_code == status
    return recorded, len(commands)


def post(api: Api, number: list[int]) -> Any:
    number[0] += 1
    return api.post("jobs", BODY, headers={"idempotency-key": f"order {number[0]}"})


def named(recorded: Traffic) -> list[str]:
    """Return the names of the statements that have one."""
    return [text.split()[1] for text in recorded.statements if text.startswith("/* ")]


def test_a_submission_takes_three_round_trips(api: Api) -> None:
    recorded, commands = measured(lambda: api.post("jobs", BODY))
    assert named(recorded) == ["find_key", "lock_account", "lock_balance", "store_job"]
    assert (len(recorded.statements), recorded.round_trips) == (5, 3)
    assert commands == 3


def test_a_keyed_submission_takes_four_round_trips(api: Api) -> None:
    number = [0]
    recorded, commands = measured(lambda: post(api, number))
    assert named(recorded) == ["find_key", "lock_account", "lock_balance", "store_job"]
    assert (len(recorded.statements), recorded.round_trips, commands) == (6, 4, 3)


def test_a_refused_submission_takes_three_round_trips(api: Api, key: tuple[ApiKey, str]) -> None:
    key[0].client.account.plan.max_active_jobs = 0
    key[0].client.account.plan.save()
    recorded, commands = measured(lambda: api.post("jobs", BODY), status=429)
    assert (len(recorded.statements), recorded.round_trips, commands) == (5, 3, 3)
    assert not Job.objects.exists()


def test_a_replay_takes_two_queries_and_a_count(api: Api) -> None:
    recorded, commands = measured(lambda: post(api, [0]))
    assert (len(recorded.statements), recorded.round_trips, commands) == (3, 3, 2)


def test_a_poll_takes_two_round_trips(api: Api, key: tuple[ApiKey, str]) -> None:
    job = make_job(key[0].client)
    recorded, commands = measured(lambda: api.get(f"jobs/{job.pk}/status"))
    assert named(recorded) == ["find_key", "poll_job"]
    assert (len(recorded.statements), recorded.round_trips, commands) == (2, 2, 2)


@pytest.mark.parametrize(("path", "prepared"), [("jobs", []), ("jobs/{}", ["read_job"])])
def test_a_read_takes_two_round_trips(api: Api, key: tuple[ApiKey, str], path: str, prepared: list[str]) -> None:
    job = make_job(key[0].client)
    recorded, commands = measured(lambda: api.get(path.format(job.pk)))
    assert named(recorded) == ["find_key", *prepared]
    assert (len(recorded.statements), recorded.round_trips, commands) == (2, 2, 1)


def expect_a_check() -> None:
    """Make Django check the connection before its next query, as at the start of a request."""
    wrapper: Any = connection
    wrapper.health_check_enabled, wrapper.health_check_done = True, False


@pytest.mark.parametrize("path", ["jobs", "jobs/{}", "jobs/{}/status"])
def test_a_read_does_not_check_its_connection(api: Api, key: tuple[ApiKey, str], path: str) -> None:
    job = make_job(key[0].client)
    assert api.get(path.format(job.pk)).status_code == 200
    expect_a_check()
    with traffic() as recorded:
        assert api.get(path.format(job.pk)).status_code == 200
    assert recorded.round_trips == 2


def test_a_read_survives_the_end_of_its_connection(api: Api) -> None:
    assert api.get("jobs").status_code == 200
    expect_a_check()
    connection.connection.close()
    assert api.get("jobs").status_code == 200
