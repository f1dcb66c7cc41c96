"""Name the kept jobs that ended before names were stored, by the main actor of their results."""

from django.db import migrations

NAME_JOBS = """
UPDATE jobs_job
SET character = left(summary->'mainActor'->>'name', 100),
    other_characters = greatest(coalesce((summary->'actors'->>'count')::integer, 1) - 1, 0)
WHERE cleared_at IS NULL AND character = '' AND summary->'mainActor'->>'name' IS NOT NULL
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0009_job_character")]
    operations = [migrations.RunSQL(NAME_JOBS, migrations.RunSQL.noop)]
