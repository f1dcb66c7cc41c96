"""Django's cache, with and without Redis."""

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from pytest_django import Settings

from simservice.redis.client import redis

pytestmark = pytest.mark.usefixtures("empty_redis")

NOWHERE = "redis://127.0.0.1:1"


def test_the_cache_stores_values() -> None:
    assert cache.add("name", [1])
    assert not cache.add("name", [2])
    assert cache.get("name") == [1]
    cache.set("name", [3], 10)
    assert cache.get("name") == [3]
    assert cache.delete("name")
    assert cache.get("name", "nothing") == "nothing"


@pytest.mark.parametrize(
    ("call", "expected"),
    [(("add", "name", 1), True), (("get", "name", 2), 2), (("set", "name", 1), None), (("delete", "name"), False)],
    ids=["add", "get", "set", "delete"],
)
def test_the_cache_is_empty_and_writable_without_redis(
    call: tuple[Any, ...], expected: object, settings: Settings
) -> None:
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": NOWHERE}}
    name, *arguments = call
    assert getattr(cache, name)(*arguments) == expected


class Payload:
    """An object whose unpickling creates a file, as an attacker could store in Redis."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("value", [[1.5, 2.25], True, 7, "text", None, {"a": [1]}], ids=repr)
def test_redis_stores_json(value: object) -> None:
    cache.set("name", value, 10)
    (key,) = redis().keys()
    assert json.loads(str(redis().get(key))) == value
    assert cache.get("name", "nothing") == value


@pytest.mark.parametrize("planted", ["", "{", "\x00", "[" * 100_000], ids=["empty", "half", "binary", "deep"])
def test_a_value_that_is_not_json_is_a_miss(planted: str) -> None:
    cache.set("name", 1, 10)
    (key,) = redis().keys()
    redis().set(key, planted)
    assert cache.get("name", "nothing") == "nothing"


def test_a_planted_pickle_is_a_miss_and_runs_nothing(tmp_path: Path) -> None:
    cache.set("name", 1, 10)
    (key,) = redis().keys()
    redis().set(key, pickle.dumps(Payload(tmp_path / "made")))
    assert cache.get("name", "nothing") == "nothing"
    assert list(tmp_path.iterdir()) == []
    cache.set("name", 2, 10)
    assert cache.get("name") == 2
