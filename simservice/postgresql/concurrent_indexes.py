"""Operations of migrations that add indexes while their tables are read and written."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.migrations.operations.base import Operation

from simservice.postgresql.migration_limits import without_limits


def concurrently(*added: tuple[str, models.Index]) -> list[Operation]:
    """Return the operations that add indexes to models, for a migration that is not atomic.

    The migration can be run again after a failure, in either direction: each index that an earlier run may have
    left is dropped first. A concurrent operation waits for all older transactions, such as a backup.
    """
    operations: list[Operation] = []
    for model, index in added:
        drop = f"DROP INDEX CONCURRENTLY IF EXISTS {index.name}"
        operations += [migrations.RunSQL(drop, migrations.RunSQL.noop), AddIndexConcurrently(model, index)]
    return without_limits(*operations)
