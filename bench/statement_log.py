"""Statements in PostgreSQL's log: how many there were, in how many round trips, and how long each took."""

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.local import ACTIVE, LocalStack

MESSAGE = re.compile(r"LOG:  duration: (?P<ms>[0-9.]+) ms  (?:statement|execute [^:]*): (?P<text>.*)")
EXECUTED = re.compile(r"(?:^|; )EXECUTE (\w+)")
TABLE = re.compile(r"\b((?:jobs|billing|webhooks|clients)_\w+)")
SETTLE_SECONDS = 0.5


@dataclass(frozen=True)
class Message:
    """One round trip: its milliseconds in PostgreSQL, and the names of its statements.

    The name of a statement that is not prepared is its first word and table.
    """

    ms: float
    names: tuple[str, ...]

    @property
    def statements(self) -> int:
        return len(self.names)


def messages(lines: Iterable[str]) -> list[Message]:
    """Return the round trips in a log, except the benchmark's own polls. Ignore other lines."""
    found = filter(None, map(MESSAGE.search, lines))
    return [Message(float(each["ms"]), _names_in(each["text"])) for each in found if each["text"] != ACTIVE]


def _names_in(text: str) -> tuple[str, ...]:
    """Return the names of the statements of one message."""
    table = TABLE.search(text)
    unprepared = " ".join([*text.split()[:1], *(table.groups() if table else ())]) or "other"
    return tuple(EXECUTED.findall(text)) or (unprepared,)


@contextmanager
def logged(stack: LocalStack) -> Iterator[list[Message]]:
    """Log all statements during the block. The yielded list is filled when the block ends."""
    log, collected = stack.folder / "logs" / "postgres.log", list[Message]()
    _set(stack, "ALTER SYSTEM SET log_min_duration_statement = 0")
    start = log.stat().st_size
    try:
        yield collected
    finally:
        _set(stack, "ALTER SYSTEM RESET log_min_duration_statement")
    with log.open("rb") as stream:
        stream.seek(start)
        collected += messages(line.decode(errors="replace") for line in stream)


def _set(stack: LocalStack, statement: str) -> None:
    stack.database.execute(statement)
    stack.database.execute("SELECT pg_reload_conf()")
    time.sleep(SETTLE_SECONDS)
