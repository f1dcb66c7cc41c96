"""Time limits of migrations: docs/how-to/upgrade-without-downtime.md#locks."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.migrations.operations.base import Operation

# Requests queue behind a waiting lock, so the migration gives up before their statements time out.
LOCK_SECONDS = 2
# How long a statement can keep the locks of its migration.
STATEMENT_SECONDS = 15


def limits(lock_seconds: int, statement_seconds: int) -> str:
    """Return the SQL that sets the limits of this session; 0 is no limit."""
    return f"SET lock_timeout = '{lock_seconds}s'; SET statement_timeout = '{statement_seconds}s'"


WAIT = limits(0, 0)
WAIT_NO_LONGER = limits(LOCK_SECONDS, STATEMENT_SECONDS)


def without_limits(*operations: Operation) -> list[Operation]:
    """Return operations that may take hours, for a migration that is not atomic.

    They must not hold locks that stop requests: they validate a constraint, or work in batches.
    """
    return [migrations.RunSQL(WAIT, WAIT_NO_LONGER), *operations, migrations.RunSQL(WAIT_NO_LONGER, WAIT)]


def concurrently(model: str, index: models.Index) -> list[Operation]:
    """Return operations that add an index while the table is written, for a migration that is not atomic.

    They wait for all older transactions, such as a backup. If they are interrupted, the migration can be run again.
    """
    leftover = migrations.RunSQL(f"DROP INDEX CONCURRENTLY IF EXISTS {index.name}", migrations.RunSQL.noop)
    return without_limits(leftover, AddIndexConcurrently(model, index))
