"""Fixtures and helpers of the local stack's tests: programs to supervise, and their processes."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from localstack.supervisor import Program, Supervisor
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    supervisor = Supervisor()
    yield supervisor
    supervisor.stop()


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Program]:
    """Return a function that makes a program from Python source; it logs to `program.log`."""

    def make(source: str) -> Program:
        return Program(
            name="program",
            command=[sys.executable, "-c", source],
            folder=tmp_path,
            log=tmp_path / "program.log",
            environment=os.environ,
        )

    return make


def processes_in(folder: Path) -> list[psutil.Process]:
    """Return every process that works in `folder` or below, except zombies."""
    return [each for each in psutil.process_iter() if _folder_of(each).is_relative_to(folder)]


def _folder_of(process: psutil.Process) -> Path:
    with suppress(psutil.Error, OSError):
        return Path(process.cwd())
    return Path("/")


def eventually(condition: Callable[[], object], *, seconds: float = PATIENCE_SECONDS) -> bool:
    """Return whether `condition` becomes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
