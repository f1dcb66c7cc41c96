"""Add the index of failing endpoints."""

from django.db import migrations, models

from simservice.postgresql.concurrent_indexes import concurrently


class Migration(migrations.Migration):
    phase = "expand"
    atomic = False

    dependencies = [("webhooks", "0004_trace_parent")]

    operations = concurrently(
        (
            "endpoint",
            models.Index(
                condition=models.Q(("disabled_at", None), ("failing_since__isnull", False)),
                fields=["failing_since"],
                name="endpoint_failing",
            ),
        ),
    )
