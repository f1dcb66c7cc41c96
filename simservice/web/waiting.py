"""Long polling: requests that wait for a change, such as `GET …/status?wait=25`.

The view answers at once. If the client asked to wait, the server discards that answer without counting it, parks
the connection, and calls the view again on a change or when the time is up. A parked request occupies a socket and
a few kilobytes, but no thread and no database connection: one thread polls for the changes of all of them. Another
web server answers such a request at once.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection as database

from simservice.telemetry.metrics import WANTED

logger = logging.getLogger(__name__)

# Keys in `request.META`: the web server's function that reserves a place for an owner, and the wait that is over.
RESERVE = "simservice.reserve_wait"
WAITED = "simservice.waited"
LOOK_SECONDS = 0.15
# After a failure
RETRY_SECONDS = 1.0
# Returns the states of subjects, without those that no longer exist.
ReadStates = Callable[[Collection[Any]], Mapping[Any, Hashable]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Wait:
    """A wait of `owner` until `subject` leaves `state`, or until the monotonic time `ends_at`."""

    owner: Hashable
    subject: Hashable
    state: Hashable
    ends_at: float
    read_states: ReadStates


class Places:
    """Places for waits, shared among owners.

    Once half of the places are taken, an owner that has a tenth of them gets no more.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._taken: Counter[Hashable] = Counter()

    def reserve(self, owner: Hashable) -> bool:
        """Take a place, if the owner can have one. Return whether it was taken."""
        with self._lock:
            limit = self._count if self._taken[owner] < max(1, self._count // 10) else self._count // 2
            if self._taken.total() >= limit:
                return False
            self._taken[owner] += 1
            return True

    def release(self, owner: Hashable) -> None:
        """Free a place."""
        with self._lock:
            self._taken[owner] -= 1
            if not self._taken[owner]:
                del self._taken[owner]


def park(
    meta: dict[str, Any],
    *,
    owner: Hashable,
    subject: Hashable,
    state: Hashable,
    seconds: float,
    read_states: ReadStates,
) -> None:
    """Ask the web server to park the request while `subject` is in `state`, for at most `seconds`.

    Does nothing if the request has waited, and its subject has changed or its time is over, or if the server has no
    place for another wait of `owner`, or for one of a request with a large body.
    """
    waited: Wait | None = meta.get(WAITED)
    ends_at = waited.ends_at if waited else time.monotonic() + seconds
    reserve: Callable[[Hashable], bool] = meta.get(RESERVE, lambda _owner: False)
    if ends_at > time.monotonic() and (waited is None or waited.state == state) and reserve(owner):
        meta[WANTED] = Wait(owner=owner, subject=subject, state=state, ends_at=ends_at, read_states=read_states)


class WaitPoller:
    """Polls for the changes of all waits in one thread, which exists while there are any.

    `notify` is called in that thread with each wait that is over.
    """

    def __init__(self, notify: Callable[[Wait], None]) -> None:
        self._notify = notify
        self._lock = threading.Lock()
        self._waits: set[Wait] = set()
        self._is_running = False
        self._is_failing = False

    def add(self, wait: Wait) -> None:
        """Begin to look for a change."""
        with self._lock:
            self._waits.add(wait)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="wait-poller", daemon=True).start()

    def forget(self, wait: Wait) -> None:
        """Stop looking for a change."""
        with self._lock:
            self._waits.discard(wait)

    def _run(self) -> None:
        while waits := self._current():
            for wait in self._over(waits):
                self.forget(wait)
                self._notify(wait)
            time.sleep(RETRY_SECONDS if self._is_failing else LOOK_SECONDS)
        database.close()

    def _current(self) -> list[Wait]:
        """Return all waits. If there are none, the thread ends, and the next wait starts another."""
        with self._lock:
            self._is_running = bool(self._waits)
            return list(self._waits)

    def _over(self, waits: list[Wait]) -> list[Wait]:
        """Return the waits whose subject has changed or whose time is over; only the latter if reading fails."""
        try:
            changed = _changed(waits)
        except Exception:
            if not self._is_failing:
                logger.exception("waiting requests cannot see changes")
            database.close()
            self._is_failing, changed = True, set()
        else:
            self._is_failing = False
        now = time.monotonic()
        return [wait for wait in waits if wait in changed or wait.ends_at <= now]


def _changed(waits: Iterable[Wait]) -> set[Wait]:
    by_reader: dict[ReadStates, list[Wait]] = {}
    for wait in waits:
        by_reader.setdefault(wait.read_states, []).append(wait)
    changed = set()
    for read_states, group in by_reader.items():
        states = read_states({wait.subject for wait in group})
        changed |= {wait for wait in group if states.get(wait.subject) != wait.state}
    return changed
