"""Limits on the duration of one PostgreSQL statement, including waits for locks, by kind of process.

Management commands and migrations have no limit.
"""

from django.db import connections

WEB_SECONDS = 5
WORKER_SECONDS = 30


def limit_statements(seconds: int) -> None:
    """Limit every statement of this process, before its first connection. A longer one raises OperationalError."""
    connections.settings["default"]["OPTIONS"]["options"] += f" -c statement_timeout={seconds}s"
