"""Submissions at a fixed rate, whatever the response times (an open loop)."""

import threading
import time
from http.client import HTTPException
from types import TracebackType
from typing import Self

from bench.callers import Caller

CALLERS = 16


class OpenLoop:
    """Submits jobs at a rate in threads, in turn for each account, during its block.

    Durations are measured from the moment when a submission was due, so a slow server cannot hide its queue.
    """

    def __init__(self, url: str, keys: list[str], *, rate: float) -> None:
        self._url, self._keys, self._rate = url, keys, rate
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._next, self._started = 0, time.monotonic()
        self._durations: list[float] = []
        self.accepted: list[int] = []
        self.errors: list[str] = []
        self._threads = [threading.Thread(target=self._work) for _ in range(CALLERS)]

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        callers = {key: Caller(self._url, key) for key in self._keys}
        while not self._stop.is_set():
            with self._lock:
                number, self._next = self._next, self._next + 1
            due = self._started + number / self._rate
            if not self._stop.wait(max(0.0, due - time.monotonic())):
                self._submit(callers[self._keys[number % len(self._keys)]], due=due)

    def _submit(self, caller: Caller, *, due: float) -> None:
        try:
            job_id = caller.submit()
        except (AssertionError, OSError, HTTPException) as error:
            self.errors.append(repr(error)[:300])
            return
        self.accepted.append(int(job_id))
        self._durations.append(time.monotonic() - due)

    def take_durations(self) -> list[float]:
        """Return the seconds of the submissions since the last call."""
        taken, self._durations = self._durations, []
        return taken
