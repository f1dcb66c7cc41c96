"""Counts of statements and round trips of the database connection, from libpq's trace of its messages.

The trace also shows what Django's counters miss: pipelined statements, and BEGIN and COMMIT.
"""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db import connection
from psycopg.pq import Trace

# A message: its sender (F for this process, B for PostgreSQL), its length, its type and its content
MESSAGE = re.compile(r"^([FB])\t\d+\t(\w+)(.*?)(?=^[FB]\t\d+\t|\Z)", re.MULTILINE | re.DOTALL)
# The name of a prepared statement, empty if it has none, and its text
PARSE = re.compile(r'\s*"([^"]*)" "(.*)" \d+[\s\d]*', re.DOTALL)
# The beginnings of queries that depend on earlier use of the connection
ONCE = ('\t "DEALLOCATE ALL"', '\t "SELECT pg_backend_pid()"')
PREPARED = "SELECT name, statement FROM pg_prepared_statements"
# The name of a portal, and that of its prepared statement
BIND = re.compile(r'\s*"[^"]*" "([^"]*)"')


@dataclass(kw_only=True)
class Traffic:
    """The statements sent while a block ran, and how often the process waited for PostgreSQL.

    The preparation of statements, which a rollback undoes, and the check for a pooler are not counted, because they
    depend on earlier use of the connection.
    """

    # The texts of prepared statements, by name
    prepared: dict[str, str]
    statements: list[str] = field(default_factory=list)
    round_trips: int = 0

    def read(self, trace: str) -> None:
        """Set the fields from a trace."""
        is_awaited, bound = False, ""
        for sender, kind, content in MESSAGE.findall(trace):
            if sender == "B":
                self.round_trips += is_awaited
                is_awaited = False
            elif kind == "Query" and not content.startswith(ONCE):
                self.statements.append(content.strip().strip('"'))
                is_awaited = True
            elif kind == "Parse" and (parse := PARSE.fullmatch(content)):
                self.prepared[parse[1]] = parse[2]
            elif kind == "Bind" and (bind := BIND.match(content)):
                bound = self.prepared[bind[1]]
            elif kind == "Execute":
                self.statements.append(bound)
                is_awaited = True


@contextmanager
def traffic() -> Iterator[Traffic]:
    """Record the traffic of this thread's connection with PostgreSQL; it is complete when the block ends.

    Statements include BEGIN, COMMIT and savepoints.
    """
    connection.ensure_connection()
    protocol = connection.connection.pgconn
    recorded = Traffic(prepared=dict(connection.connection.execute(PREPARED).fetchall()))
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as file:
        protocol.trace(file.fileno())
        protocol.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        try:
            yield recorded
        finally:
            protocol.untrace()
            file.seek(0)
            recorded.read(file.read())
