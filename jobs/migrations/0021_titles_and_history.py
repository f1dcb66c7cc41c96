"""Add given titles, and the index of characters' histories.

The index is created concurrently, so jobs stay readable and writable. The migration is not atomic: run it again after
a failure, in either direction, since it first drops what an earlier run may have left.
"""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

# A concurrent operation waits for all older transactions, such as a backup.
WAIT = "SET lock_timeout = 0"
WAIT_NO_LONGER = "RESET lock_timeout"
ADD_TITLE = "ALTER TABLE jobs_job ADD COLUMN IF NOT EXISTS given_title varchar(200) DEFAULT '' NOT NULL"
DROP_TITLE = "ALTER TABLE jobs_job DROP COLUMN IF EXISTS given_title"
DROP_INDEX = "DROP INDEX CONCURRENTLY IF EXISTS job_by_character"


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('jobs', '0020_job_details'),
    ]

    operations = [
        migrations.RunSQL(WAIT, WAIT_NO_LONGER),
        migrations.RunSQL(DROP_INDEX, migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name='job',
            index=models.Index(
                fields=['account', 'character', '-id'],
                condition=models.Q(('status', 'completed'), models.Q(('character', ''), _negated=True)),
                name='job_by_character',
            ),
        ),
        migrations.RunSQL(WAIT_NO_LONGER, WAIT),
        migrations.RunSQL(
            ADD_TITLE,
            DROP_TITLE,
            state_operations=[
                migrations.AddField(
                    model_name='job',
                    name='given_title',
                    field=models.CharField(blank=True, db_default='', default='', max_length=200),
                ),
            ],
        ),
    ]
