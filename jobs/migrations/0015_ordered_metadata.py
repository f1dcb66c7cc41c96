"""Keep the order of the metadata's entries. Rewrites the jobs table once, under an exclusive lock."""

from django.db import migrations

import jobs.fields

TO_TEXT = "ALTER TABLE jobs_job ALTER metadata TYPE text"
# The framework would leave out how a text becomes JSON.
TO_JSONB = "ALTER TABLE jobs_job ALTER metadata TYPE jsonb USING metadata::jsonb"


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0014_includable_files'),
    ]

    operations = [
        migrations.RunSQL(
            TO_TEXT,
            TO_JSONB,
            state_operations=[
                migrations.AlterField(
                    model_name='job',
                    name='metadata',
                    field=jobs.fields.OrderedJSONField(default=dict),
                ),
            ],
        ),
    ]
