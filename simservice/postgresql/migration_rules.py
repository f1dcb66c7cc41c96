"""Phases and time limits of migrations (`docs/how-to/upgrade-without-downtime.md`).

The phase `expand` runs before the new version starts, `contract` after the old one has stopped. A migration of this
project states its phase in the attribute `phase` of its class. Initial migrations, which create the tables of an
app, and migrations of other packages belong to `expand`.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.migrations import Migration
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


EXPAND, CONTRACT = "expand", "contract"


class OutOfOrder(Exception):
    """An expanding migration needs a contracting one that is not applied."""


def is_marked(migration: Migration) -> bool:
    """Return whether the rules of phases apply to a migration."""
    is_ours = Path(apps.get_app_config(migration.app_label).path).parent == settings.BASE_DIR
    return is_ours and not migration.initial


def phase_of(migration: Migration) -> str:
    """Return the phase of a migration. Without a mark, it is `expand`."""
    return str(getattr(migration, "phase", EXPAND))


def expanding(plan: Sequence[Migration]) -> list[Migration]:
    """Return the migrations of a plan that old code can bear, in its order. Raises OutOfOrder."""
    contracting = [migration for migration in plan if phase_of(migration) == CONTRACT]
    later = {(each.app_label, each.name) for each in contracting}
    for migration in plan:
        if migration not in contracting and (needed := later.intersection(migration.dependencies)):
            raise OutOfOrder(
                f"{migration} needs {listed(needed)}, which must run after older processes have stopped. Stop "
                "processes older than the previous release, run `migrate` of the previous release, and try again."
            )
    return [migration for migration in plan if migration not in contracting]


def listed(keys: Iterable[tuple[str, str]]) -> str:
    """Return the names of migrations in one line."""
    return ", ".join(f"{app}.{name}" for app, name in sorted(keys))
