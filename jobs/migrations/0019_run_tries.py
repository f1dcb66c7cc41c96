"""Let a shard have several runs, one for each try.

The unique index is created concurrently, so runs stay readable and writable. Changes of constraints need a short
lock of the table; if a backup holds it for more than `lock_timeout`, the migration fails. It is not atomic: run it
again after a failure, in either direction, since it first drops what an earlier run may have left. It can be reversed
only while no shard has had two tries.
"""

from django.db import migrations, models

# A concurrent operation waits for all older transactions, such as a backup.
WAIT = "SET lock_timeout = 0"
WAIT_NO_LONGER = "RESET lock_timeout"


def replace(old: str, new: str, *, columns: str) -> list[str]:
    """Return statements that replace the unique constraint `old` of runs by `new`."""
    return [
        f"ALTER TABLE jobs_run DROP CONSTRAINT IF EXISTS {new}",
        WAIT,
        f"DROP INDEX CONCURRENTLY IF EXISTS {new}",
        f"CREATE UNIQUE INDEX CONCURRENTLY {new} ON jobs_run ({columns})",
        WAIT_NO_LONGER,
        f"ALTER TABLE jobs_run ADD CONSTRAINT {new} UNIQUE USING INDEX {new}",
        f"ALTER TABLE jobs_run DROP CONSTRAINT IF EXISTS {old}",
    ]


SHARD = "job_id, attempt, stage, shard"


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("jobs", "0018_shards")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    replace("run_unique", "run_try_unique", columns=f"{SHARD}, try_number"),
                    replace("run_try_unique", "run_unique", columns=SHARD),
                )
            ],
            state_operations=[
                migrations.RemoveConstraint(model_name="run", name="run_unique"),
                migrations.AddConstraint(
                    model_name="run",
                    constraint=models.UniqueConstraint(
                        fields=("job", "attempt", "stage", "shard", "try_number"), name="run_try_unique"
                    ),
                ),
            ],
        )
    ]
