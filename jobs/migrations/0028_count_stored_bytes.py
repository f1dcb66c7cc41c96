"""Count the bytes of the artifacts that are not removed yet.

Jobs that the previous version ends or clears afterwards are not counted. `manage.py verifystorage --mend` counts them.
The migration is not atomic, because the statement may take minutes; it locks nothing and can be repeated.
"""

from django.db import migrations

from simservice.postgresql.migration_limits import without_limits

COUNT = """
    INSERT INTO jobs_storedbytes (account_id, bytes)
    SELECT account_id, sum(artifact.bytes)::bigint
    FROM jobs_job AS job JOIN jobs_artifact AS artifact ON artifact.job_id = job.id
    WHERE job.cleared_at IS NULL GROUP BY account_id
    ON CONFLICT (account_id) DO NOTHING
"""


class Migration(migrations.Migration):
    phase = "expand"
    atomic = False

    dependencies = [("jobs", "0027_retention_by_plan")]

    operations = without_limits(migrations.RunSQL(COUNT, migrations.RunSQL.noop))
