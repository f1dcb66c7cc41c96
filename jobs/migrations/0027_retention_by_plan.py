"""Add the days of retention of a job, null for the default, and the index by which expired jobs are found.

The check of the column is validated afterwards, and the index is created concurrently, so jobs stay readable and
writable. The migration is not atomic: run it again after a failure, in either direction, since it first drops what an
earlier run may have left. The index `job_to_clear` stays for the previous version.
"""

from django.db import migrations, models

from simservice.postgresql.concurrent_indexes import concurrently
from simservice.postgresql.migration_limits import without_limits

# The constraint has the name that PostgreSQL gives to the check of Django's column.
ADD_DAYS = """
    ALTER TABLE jobs_job
        ADD COLUMN IF NOT EXISTS retention_days smallint NULL,
        DROP CONSTRAINT IF EXISTS jobs_job_retention_days_check,
        ADD CONSTRAINT jobs_job_retention_days_check CHECK (retention_days >= 0) NOT VALID
"""
DROP_DAYS = "ALTER TABLE jobs_job DROP COLUMN IF EXISTS retention_days"
VALIDATE = "ALTER TABLE jobs_job VALIDATE CONSTRAINT jobs_job_retention_days_check"


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
        *without_limits(migrations.RunSQL(VALIDATE, migrations.RunSQL.noop)),
        *concurrently(
            (
                'job',
                models.Index(
                    fields=['retention_days', 'created_at'],
                    condition=models.Q(('cleared_at', None), ('status__in', ('completed', 'failed', 'cancelled', 'timed_out'))),
                    name='job_to_expire',
                ),
            ),
        ),
    ]
