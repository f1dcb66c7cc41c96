"""Add the index of recent error codes.

It is created concurrently. The migration is not atomic: run it again after a failure, in either direction, since it
first drops what an earlier run may have left.
"""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

# A concurrent operation waits for all older transactions, such as a backup.
WAIT = "SET lock_timeout = 0"
WAIT_NO_LONGER = "RESET lock_timeout"


class Migration(migrations.Migration):
    phase = "expand"
    atomic = False

    dependencies = [("jobs", "0028_count_stored_bytes")]

    operations = [
        migrations.RunSQL(WAIT, WAIT_NO_LONGER),
        migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS job_with_error", migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(
                condition=models.Q(("error_code__isnull", False)),
                fields=["completed_at"],
                include=("error_code",),
                name="job_with_error",
            ),
        ),
        migrations.RunSQL(WAIT_NO_LONGER, WAIT),
    ]
