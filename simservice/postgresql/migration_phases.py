"""The phases of migrations: `expand` runs before the new version starts, `contract` after the old one has stopped.

A migration of this project states its phase in the attribute `phase` of its class. Initial migrations, which create
the tables of an app, and migrations of other packages belong to `expand`.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.db.migrations import Migration

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
                f"{migration} needs {_names(needed)}, which must run after older processes have stopped. Stop "
                "processes older than the previous release, run `migrate` of the previous release, and try again."
            )
    return [migration for migration in plan if migration not in contracting]


def _names(keys: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{app}.{name}" for app, name in sorted(keys))
