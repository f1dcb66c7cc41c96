"""Add the days of retention of a job, null for the default, and the index by which expired jobs are found.

The index is created concurrently, so jobs stay readable and writable. The migration is not atomic: run it again after
a failure, in either direction, since it first drops what an earlier run may have left. The index `job_to_clear` stays
for the previous version.
"""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

# A concurrent operation waits for all older transactions, such as a backup.
WAIT = "SET lock_timeout = 0"
WAIT_NO_LONGER = "RESET lock_timeout"
ADD_DAYS = "ALTER TABLE jobs_job ADD COLUMN IF NOT EXISTS retention_days smallint NULL CHECK (retention_days >= 0)"
DROP_DAYS = "ALTER TABLE jobs_job DROP COLUMN IF EXISTS retention_days"
DROP_INDEX = "DROP INDEX CONCURRENTLY IF EXISTS job_to_expire"


class Migration(migrations.Migration):
    phase = "expand"
    atomic = False

    dependencies = [
        ('jobs', '0026_stored_bytes'),
    ]

    operations = [
        migrations.RunSQL(
            ADD_DAYS,
            DROP_DAYS,
            state_operations=[
                migrations.AddField(
                    model_name='job',
                    name='retention_days',
                    field=models.PositiveSmallIntegerField(null=True),
                ),
            ],
        ),
        migrations.RunSQL(WAIT, WAIT_NO_LONGER),
        migrations.RunSQL(DROP_INDEX, migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name='job',
            index=models.Index(
                fields=['retention_days', 'created_at'],
                condition=models.Q(('cleared_at', None), ('status__in', ('completed', 'failed', 'cancelled', 'timed_out'))),
                name='job_to_expire',
            ),
        ),
        migrations.RunSQL(WAIT_NO_LONGER, WAIT),
    ]
