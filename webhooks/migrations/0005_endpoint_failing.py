"""Add the index of failing endpoints.

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

    dependencies = [("webhooks", "0004_trace_parent")]

    operations = [
        migrations.RunSQL(WAIT, WAIT_NO_LONGER),
        migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS endpoint_failing", migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="endpoint",
            index=models.Index(
                condition=models.Q(("disabled_at", None), ("failing_since__isnull", False)),
                fields=["failing_since"],
                name="endpoint_failing",
            ),
        ),
        migrations.RunSQL(WAIT_NO_LONGER, WAIT),
    ]
