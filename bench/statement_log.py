"""Statements in PostgreSQL's log: how many there were, and how long each took."""

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.local import ACTIVE, LocalStack

EXECUTED = re.compile(r"LOG:  duration: (?P<ms>[0-9.]+) ms  (?:statement|execute [^:]*): (?P<text>.*)")
NAME = re.compile(r"/\* (\w+) \*/")
TABLE = re.compile(r"\b((?:jobs|billing|webhooks|clients)_\w+)")
SETTLE_SECONDS = 0.5


@dataclass(frozen=True)
class Statement:
    """An executed statement: its milliseconds in PostgreSQL, and its name.

    The name of a statement outside the `.sql` files is its first word and table.
    """

    ms: float
    name: str


def statements(lines: Iterable[str]) -> list[Statement]:
    """Return the statements in a log, except the benchmark's own polls. Ignore other lines."""
    found = filter(None, map(EXECUTED.search, lines))
    return [Statement(float(each["ms"]), _name_of(each["text"])) for each in found if each["text"] != ACTIVE]


def _name_of(text: str) -> str:
    """Return the name of a statement."""
    if name := NAME.match(text):
        return name[1]
    table = TABLE.search(text)
    return " ".join([*text.split()[:1], *(table.groups() if table else ())]) or "other"


@contextmanager
def logged(stack: LocalStack) -> Iterator[list[Statement]]:
    """Log all statements during the block. The yielded list is filled when the block ends."""
    log, collected = stack.folder / "logs" / "postgres.log", list[Statement]()
    _set(stack, "ALTER SYSTEM SET log_min_duration_statement = 0")
    start = log.stat().st_size
    try:
        yield collected
    finally:
        _set(stack, "ALTER SYSTEM RESET log_min_duration_statement")
    with log.open("rb") as stream:
        stream.seek(start)
        collected += statements(line.decode(errors="replace") for line in stream)


def _set(stack: LocalStack, statement: str) -> None:
    stack.database.execute(statement)
    stack.database.execute("SELECT pg_reload_conf()")
    time.sleep(SETTLE_SECONDS)
