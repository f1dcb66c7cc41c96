"""Threads that repeat actions during a block."""

import threading
import time
from unittest.mock import Mock

import pytest

from jobs.execution import periodic_thread
from jobs.execution.periodic_thread import PeriodicThread
from tests.jobs.simulators import wait_until

SECONDS = 0.05


def names() -> set[str]:
    """Return the names of this process's threads."""
    return {thread.name for thread in threading.enumerate()}


def test_a_block_that_ends_early_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Mock()
    monkeypatch.setattr(PeriodicThread, "start", start)
    for _ in range(20):
        with PeriodicThread(lambda: None, seconds=5, name="early"):
            pass
    time.sleep(2 * periodic_thread.START_CHECK_SECONDS)
    start.assert_not_called()


def test_actions_repeat_until_the_block_ends() -> None:
    calls: list[int] = []
    with PeriodicThread(lambda: calls.append(1), seconds=SECONDS, name="repeating"):
        wait_until(lambda: len(calls) >= 3)
        assert "repeating" in names()
    ended = len(calls)
    assert "repeating" not in names()
    time.sleep(3 * SECONDS)
    assert len(calls) == ended


def test_a_thread_that_is_due_first_does_not_wait_for_others() -> None:
    called = threading.Event()
    with (
        PeriodicThread(lambda: None, seconds=60, name="later"),
        PeriodicThread(called.set, seconds=SECONDS, name="sooner"),
    ):
        assert called.wait(10)
        assert "later" not in names()


def test_an_action_that_hangs_delays_no_other_block() -> None:
    called = threading.Event()

    def hang() -> None:
        called.wait(20)

    with PeriodicThread(hang, seconds=SECONDS, name="hanging"):
        time.sleep(4 * SECONDS)
        with PeriodicThread(called.set, seconds=SECONDS, name="other"):
            assert called.wait(10)


def test_an_action_that_fails_is_tried_again() -> None:
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise ValueError

    with PeriodicThread(fail, seconds=SECONDS, name="failing"):
        wait_until(lambda: len(calls) >= 2)


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError(), ValueError()])
def test_a_thread_that_cannot_be_started_starts_later(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    called, refusals = threading.Event(), iter([error] * 2)
    start = threading.Thread.start

    def sometimes(thread: threading.Thread) -> None:
        if thread.name == "refused":
            for refusal in refusals:
                raise refusal
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", sometimes)
    with PeriodicThread(called.set, seconds=SECONDS, name="refused"):
        assert called.wait(10)
