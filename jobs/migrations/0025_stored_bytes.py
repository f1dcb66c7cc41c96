"""Add the count of an account's stored bytes, and fill it with the artifacts that are not removed yet.

Jobs that the previous version ends or clears afterwards are not counted. `manage.py verifystorage --mend` counts them.
"""

import django.db.models.deletion
from django.db import migrations, models

COUNT = """
    INSERT INTO jobs_storedbytes (account_id, bytes)
    SELECT account_id, sum(artifact.bytes)::bigint
    FROM jobs_job AS job JOIN jobs_artifact AS artifact ON artifact.job_id = job.id
    WHERE job.cleared_at IS NULL GROUP BY account_id
"""


class Migration(migrations.Migration):

    dependencies = [
        ('billing', '0009_plan_retention_and_storage'),
        ('jobs', '0024_earlier_metadata_entries'),
    ]

    operations = [
        migrations.CreateModel(
            name='StoredBytes',
            fields=[
                ('account', models.OneToOneField(editable=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='billing.account')),
                ('bytes', models.PositiveBigIntegerField(default=0)),
            ],
            options={
                'verbose_name_plural': 'stored bytes',
            },
        ),
        migrations.RunSQL(COUNT, migrations.RunSQL.noop),
    ]
