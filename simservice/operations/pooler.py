"""The check of a connection pooler, such as PgBouncer, between the service and PostgreSQL."""

from collections.abc import Iterator

from django.db import connection

from simservice.operations.doctor import Finding, ok, warning
from simservice.postgresql.connections import is_pooled

# What the service asks of PostgreSQL when it connects, and a pooler ignores.
LIMITS = (
    "idle_in_transaction_session_timeout",
    "lock_timeout",
    "client_connection_check_interval",
    "statement_timeout",
)
UNLIMITED = "SELECT name FROM pg_settings WHERE name = ANY(%s) AND setting = '0' ORDER BY 1"


def check_pooler() -> Iterator[Finding]:
    """Yield the time limits that a pooler leaves out."""
    connection.ensure_connection()
    if not is_pooled(connection):
        yield ok("none: connected directly to PostgreSQL")
        return
    with connection.cursor() as cursor:
        cursor.execute(UNLIMITED, [list(LIMITS)])
        missing = [name for (name,) in cursor.fetchall()]
    if missing:
        yield warning(
            f"The pooler connects without time limits: {', '.join(missing)}.",
            "Set them in its connect_query, as deploy/pgbouncer.ini does.",
        )
    else:
        yield ok("in use, with time limits")
