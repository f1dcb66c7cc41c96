"""Who is alive, and how much they do at a time."""

import pytest
from redis.exceptions import RedisError

from simservice import presence
from simservice.presence import Worker


def test_workers_tell_their_slots() -> None:
    presence.report("sim@here-1", slots=4)
    presence.report("sim@there-2", slots=2)
    presence.report("webhooks@here-3", slots=8)
    workers = presence.simulation_workers()
    assert sorted(workers) == [Worker("sim@here-1", 4), Worker("sim@there-2", 2)]
    assert presence.slots_of(workers) == 6


def test_workers_report_what_contains_their_simulators() -> None:
    presence.report("sim@here", layers=["seccomp", "landlock"])
    assert presence.simulation_workers() == [Worker("sim@here", 1, frozenset({"landlock", "seccomp"}))]
    assert presence.common_layers([]) == []


def test_a_worker_lives_without_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(member: str) -> None:
        raise RedisError

    monkeypatch.setattr(presence, "record", fail)
    presence.report("sim@here")
