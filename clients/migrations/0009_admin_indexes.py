"""Add the indexes of the audit events of a job, and of keys by their last characters."""

from django.db import migrations, models

from simservice.postgresql.concurrent_indexes import concurrently


class Migration(migrations.Migration):
    phase = "expand"
    atomic = False

    dependencies = [("clients", "0008_account_deletion")]

    operations = concurrently(
        (
            "auditevent",
            models.Index(
                condition=models.Q(("action__startswith", "job.")), fields=["target_id"], name="audit_by_job"
            ),
        ),
        ("apikey", models.Index(fields=["last4"], name="key_by_last4")),
    )
