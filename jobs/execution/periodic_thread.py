"""A thread that repeats actions during a `with` block, so that none of them can delay the block."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from django.db import connection

logger = logging.getLogger(__name__)


class PeriodicThread:
    """Calls some actions every `seconds` until the `with` block ends. An action that fails is tried again."""

    def __init__(self, *actions: Callable[[], None], seconds: float, name: str) -> None:
        self._actions, self._seconds = actions, seconds
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._done.wait(self._seconds):
                for action in self._actions:
                    self._try(action)
        finally:
            connection.close()

    def _try(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception:
            logger.exception("%s: an action failed; it will be tried again", self._thread.name)
            # A dead connection stays dead; the next query opens a new one.
            connection.close()
