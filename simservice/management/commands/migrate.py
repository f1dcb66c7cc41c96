"""Django's `migrate` with phases, time limits and retries; see docs/how-to/upgrade-without-downtime.md."""

import time
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.core.management.commands import migrate
from django.db import OperationalError, connections
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor
from psycopg.errors import LockNotAvailable

from simservice.postgresql.connections import is_pooled
from simservice.postgresql.migration_rules import (
    LOCK_SECONDS,
    STATEMENT_SECONDS,
    OutOfOrder,
    expanding,
    is_marked,
    limits,
)

TRIES = 30
PAUSE_SECONDS = 2
POOLED = (
    "DATABASE_URL leads to a connection pooler, where other processes would get the time limits of a migration. "
    "Run this command with a DATABASE_URL that leads to PostgreSQL directly."
)


class Command(migrate.Command):
    """Applies migrations; `--expand` applies only those that running processes of the previous version can bear."""

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--expand",
            action="store_true",
            help="Apply only the migrations that must run before the new version starts; all, if none is applied.",
        )

    def handle(self, *args: Any, expand: bool = False, **options: Any) -> None:
        if expand and options["app_label"]:
            raise CommandError("--expand applies to all apps; do not name one.")
        connection = connections[options["database"]]
        connection.ensure_connection()
        if is_pooled(connection):
            raise CommandError(POOLED)
        for target in self._targets(connection) if expand else [{}]:
            self._handle_with_retries(*args, connection=connection, **options | target)

    def _targets(self, connection: Any) -> list[dict[str, str]]:
        executor = MigrationExecutor(connection)
        plan = [migration for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]
        try:
            chosen = expanding(plan)
        except OutOfOrder as error:
            if executor.loader.applied_migrations:
                raise CommandError(str(error)) from error
            return [{}]
        if not executor.loader.applied_migrations or len(chosen) == len(plan):
            return [{}]
        last = {each.app_label: each.name for each in chosen}
        return [{"app_label": app, "migration_name": name} for app, name in last.items()]

    def _handle_with_retries(self, *args: Any, connection: Any, **options: Any) -> None:
        """Run Django's command, again if a lock was not free. A failed migration can always be run again."""
        try:
            for left in reversed(range(TRIES)):
                try:
                    super().handle(*args, **options)
                    return
                except OperationalError as error:
                    if not left or not isinstance(error.__cause__, LockNotAvailable):
                        raise
                    self.stdout.write(f" a lock is not free; trying again in {PAUSE_SECONDS} s")
                    time.sleep(PAUSE_SECONDS)
        finally:
            if connection.connection and not connection.connection.closed:
                with connection.cursor() as cursor:
                    cursor.execute("RESET lock_timeout; RESET statement_timeout")

    def migration_progress_callback(
        self,
        action: str,
        migration: Migration | None = None,
        fake: bool = False,  # noqa: FBT001, FBT002 - Django's
    ) -> None:
        super().migration_progress_callback(action, migration, fake)
        if migration and action in ("apply_start", "unapply_start"):
            # Migrations of other packages do not lift the limit where they need to.
            limit = STATEMENT_SECONDS if is_marked(migration) else 0
            with connections["default"].cursor() as cursor:
                cursor.execute(limits(LOCK_SECONDS, limit))
