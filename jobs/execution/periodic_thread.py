"""Threads that repeat actions during a `with` block, so that a slow action does not delay the block."""

import logging
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from types import TracebackType
from typing import Self

from django.db import connection

logger = logging.getLogger(__name__)

START_CHECK_SECONDS = 0.25


class PeriodicThread:
    """Calls some actions every `seconds` until the `with` block ends. An action that fails is tried again.

    The first call is after `seconds`. A block that ends earlier starts no thread.
    """

    def __init__(self, *actions: Callable[[], object], seconds: float, name: str) -> None:
        self._actions, self._seconds = actions, seconds
        self._done = threading.Event()
        # In the caller's context, so that log lines have the ids of its job.
        self._thread = threading.Thread(target=copy_context().run, args=[self._run], name=name, daemon=True)
        self._lock = threading.Lock()
        self.due_at = 0.0

    def __enter__(self) -> Self:
        self.due_at = time.monotonic() + self._seconds
        starter.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._done.set()
        starter.remove(self)
        if self._thread.ident is not None:
            self._thread.join()

    def start(self) -> None:
        """Start the thread unless the block has ended. Raises RuntimeError if the system refuses a new thread."""
        with self._lock:
            if not self._done.is_set():
                self._thread.start()

    def _run(self) -> None:
        try:
            while not self._done.is_set():
                for action in self._actions:
                    self._try(action)
                self._done.wait(self._seconds)
        finally:
            connection.close()

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception:
            logger.exception("%s: an action failed; it will be tried again", self._thread.name)
            # The connection may be lost; after this, the next query opens a new one.
            connection.close()


class _Starter:
    """A thread that starts this process's periodic threads when they are due, and sleeps while there are none."""

    def __init__(self) -> None:
        self._waiting: set[PeriodicThread] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, periodic: PeriodicThread) -> None:
        """Schedule the start of a periodic thread for when it is due."""
        with self._changed:
            self._waiting.add(periodic)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="periodic-starter", daemon=True)
                self._thread.start()
            elif len(self._waiting) == 1:
                self._changed.notify()

    def remove(self, periodic: PeriodicThread) -> None:
        """Cancel the start of a periodic thread, if it is not started yet."""
        with self._changed:
            self._waiting.discard(periodic)

    def _run(self) -> None:
        while True:
            try:
                self._start_next()
            except Exception:
                logger.exception("cannot start a periodic thread; trying again")
                time.sleep(START_CHECK_SECONDS)

    def _start_next(self) -> None:
        """Start the thread that is due first, or sleep for a while. Raises any error of its start."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting)
            first = min(self._waiting, key=lambda periodic: periodic.due_at)
        # Limit the sleep, because a thread that is due earlier can be added meanwhile.
        if (seconds := first.due_at - time.monotonic()) > 0:
            time.sleep(min(seconds, START_CHECK_SECONDS))
        else:
            first.start()
            self.remove(first)


starter = _Starter()
