"""Costs of an action, in counts that do not depend on the machine's load."""

import logging
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from typing import Any, cast

import pytest
from django.conf import settings
from redis.connection import PythonRespSerializer

from tests.statements import traffic

STARTS_OF_PROCESSES = ((os, "fork"), (os, "posix_spawn"), (subprocess.Popen, "_execute_child"))


@dataclass(kw_only=True)
class Costs:
    """What an action sent, started and logged in this process, including statements of transactions."""

    statements: int = 0
    round_trips: int = 0
    redis_commands: int = 0
    processes: int = 0
    log_bytes: int = 0


@contextmanager
def counted() -> Iterator[Costs]:
    """Count the costs of a block; they are complete when it ends. Connections must be open before."""
    costs, log = Costs(), StringIO()

    def pack(*_: Any) -> None:
        costs.redis_commands += 1

    def start(*_: Any, **__: Any) -> None:
        costs.processes += 1

    with pytest.MonkeyPatch.context() as patch, _log_to(log), traffic() as sent:
        _call_before(patch, PythonRespSerializer, "pack", pack)
        for owner, name in STARTS_OF_PROCESSES:
            _call_before(patch, owner, name, start)
        yield costs
    costs.statements, costs.round_trips = len(sent.statements), sent.round_trips
    costs.log_bytes = len(log.getvalue().encode())


def _call_before(patch: pytest.MonkeyPatch, owner: Any, name: str, note: Callable[..., None]) -> None:
    """Call `note` with the same arguments before each call of a function."""
    function = getattr(owner, name)

    def called(*arguments: Any, **named: Any) -> Any:
        note(*arguments, **named)
        return function(*arguments, **named)

    patch.setattr(owner, name, called)


@contextmanager
def _log_to(log: StringIO) -> Iterator[None]:
    """Write the log to `log` too, with the format and level of production."""
    root, handler = logging.getLogger(), logging.StreamHandler(log)
    line: Any = cast(Any, settings.LOGGING)["formatters"]["text"]
    handler.setFormatter(logging.Formatter(line["format"], style=line["style"]))
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
