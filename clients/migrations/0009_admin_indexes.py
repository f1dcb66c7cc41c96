"""Add the indexes of the audit events of a job, and of keys by their last characters.

They are created concurrently. The migration is not atomic: run it again after a failure, in either direction, since it
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

    dependencies = [("clients", "0008_account_deletion")]

    operations = [
        migrations.RunSQL(WAIT, WAIT_NO_LONGER),
        migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS audit_by_job", migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="auditevent",
            index=models.Index(
                condition=models.Q(("action__startswith", "job.")),
                fields=["target_id"],
                name="audit_by_job",
            ),
        ),
        migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS key_by_last4", migrations.RunSQL.noop),
        AddIndexConcurrently(model_name="apikey", index=models.Index(fields=["last4"], name="key_by_last4")),
        migrations.RunSQL(WAIT_NO_LONGER, WAIT),
    ]
