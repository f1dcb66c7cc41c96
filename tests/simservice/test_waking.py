"""A Celery worker requests its next message as soon as a task has left its slot."""

from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from celery.signals import task_postrun
from celery.worker import state

from simservice.celery import wake_after_tasks


class Hub:
    """A stand-in for the event loop. `step` runs the calls that are due."""

    def __init__(self) -> None:
        self.calls: deque[tuple[Callable[..., None], Any]] = deque()

    def call_soon(self, function: Callable[..., None], argument: Any) -> None:
        self.calls.append((function, argument))

    def call_later(self, _: float, function: Callable[..., None], argument: Any) -> None:
        self.calls.append((function, argument))

    def step(self) -> None:
        function, argument = self.calls.popleft()
        function(argument)


@pytest.fixture
def hub() -> Iterator[Hub]:
    """The event loop of this process's worker."""
    hub = Hub()
    wake_after_tasks(sender=SimpleNamespace(hub=hub))
    yield hub
    task_postrun.disconnect(dispatch_uid="wake")


def test_the_main_thread_waits_until_the_slot_is_free(hub: Hub) -> None:
    """Celery removes an ended task from `requests` first, and from `reserved_requests` a moment later."""
    request = type("Request", (), {"id": "one"})()
    state.task_reserved(request)
    task_postrun.send(sender=None, task_id="one")
    state.requests.pop("one")
    hub.step()
    hub.step()
    assert len(hub.calls) == 1, "the slot is not free yet"
    state.reserved_requests.discard(request)
    hub.step()
    assert not hub.calls


def test_a_task_that_is_not_of_this_worker_wakes_nobody(hub: Hub) -> None:
    task_postrun.send(sender=None, task_id="unknown")
    assert not hub.calls
