"""Add the index of recent error codes."""

from django.db import migrations, models

from simservice.postgresql.concurrent_indexes import concurrently


class Migration(migrations.Migration):
    phase = "expand"
    atomic = False

    dependencies = [("jobs", "0028_count_stored_bytes")]

    operations = concurrently(
        (
            "job",
            models.Index(
                condition=models.Q(("error_code__isnull", False)),
                fields=["completed_at"],
                include=("error_code",),
                name="job_with_error",
            ),
        ),
    )
