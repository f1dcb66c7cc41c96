"""Add the metadata entries of the kept jobs that were submitted before entries were stored.

Jobs are read in batches by id, each in a transaction of its own, so nothing is locked. After an interruption, the
migration starts again and skips the entries that exist.
"""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import migrations
from django.utils import timezone

BATCH = 5_000
ADD_ENTRIES = """
WITH batch AS MATERIALIZED (
    SELECT id, account_id, metadata, cleared_at FROM jobs_job WHERE id > %s ORDER BY id LIMIT %s
), added AS (
    INSERT INTO jobs_metadataentry (account_id, digest, job_id)
    SELECT account_id, jobs_metadata_digest(key, value), id
    FROM batch, json_each_text(metadata::json) WHERE cleared_at IS NULL
    ON CONFLICT DO NOTHING
)
SELECT max(id), count(*) FROM batch
"""


def add_entries(apps: Any, schema_editor: Any) -> None:  # noqa: ARG001
    """Add the entries of jobs within the retention period, oldest first."""
    oldest = timezone.now() - timedelta(days=settings.RETENTION_DAYS)
    # The first id of that time: milliseconds and five more digits
    last, count = int(oldest.timestamp() * 1000) * 100_000, BATCH
    with schema_editor.connection.cursor() as cursor:
        # Jobs submitted in the meantime have entries.
        while count == BATCH:
            cursor.execute(ADD_ENTRIES, [last, BATCH])
            last, count = cursor.fetchone()


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("jobs", "0023_metadata_entries")]

    operations = [migrations.RunPython(add_entries, migrations.RunPython.noop, elidable=False)]
