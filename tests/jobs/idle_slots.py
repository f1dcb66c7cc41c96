"""Slots of simulation workers that wait for hints in this test process's Redis database."""

import threading
from types import TracebackType
from typing import Self

from jobs.queueing import announcements
from simservice.redis.client import redis
from tests.jobs.simulators import wait_until


def waiting_clients() -> list[dict[str, str]]:
    """Return the clients of slots, of any process, that wait for a hint in this test process's Redis database.

    Redis's own figure, `blocked_clients`, also counts the clients of the tests that run at the same time.
    """
    database = str(redis().client_info()["db"])
    clients = redis().client_list(_type="normal")
    return [
        each for each in clients if each["cmd"] == "bzpopmin" and "b" in each["flags"] and each["db"] == database
    ]


def idle_slots() -> int:
    """Return the number of slots that wait for a hint."""
    return len(waiting_clients())


def kill_waiting_clients() -> None:
    """Close the connections of all slots that wait in this test process's Redis database."""
    for client in waiting_clients():
        redis().client_kill_filter(_id=client["id"])


def wait_for_idle(count: int) -> None:
    """Wait until that many slots wait for a hint."""
    wait_until(lambda: idle_slots() == count)


class IdleSlots:
    """Threads that wait for one hint each, at most until the `with` block ends."""

    def __init__(self, count: int) -> None:
        self.woken = threading.Semaphore(0)
        self.threads = [threading.Thread(target=self._wait, daemon=True) for _ in range(count)]

    def __enter__(self) -> Self:
        for thread in self.threads:
            thread.start()
        wait_for_idle(len(self.threads))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for thread in self.threads:
            while thread.is_alive():
                announcements.interrupt_waits()
                thread.join(0.05)

    def _wait(self) -> None:
        announcements.wait_for_hint()
        self.woken.release()
