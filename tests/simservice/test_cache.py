"""Django's cache when Redis answers, and when it does not."""

from typing import Any

import pytest
from django.core.cache import cache
from pytest_django import Settings

NOWHERE = "redis://127.0.0.1:1"


def test_values_are_kept() -> None:
    assert cache.add("name", [1])
    assert not cache.add("name", [2])
    assert cache.get("name") == [1]
    cache.set("name", [3], 10)
    assert cache.get("name") == [3]
    assert cache.delete("name")
    assert cache.get("name", "nothing") == "nothing"


@pytest.mark.parametrize(
    ("question", "answer"),
    [(("add", "name", 1), True), (("get", "name", 2), 2), (("set", "name", 1), None), (("delete", "name"), False)],
    ids=["add", "get", "set", "delete"],
)
def test_without_redis_it_is_empty_and_takes_everything(
    question: tuple[Any, ...], answer: object, settings: Settings
) -> None:
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": NOWHERE}}
    name, *arguments = question
    assert getattr(cache, name)(*arguments) == answer
