"""Keep the order of the metadata's entries. Rewrites the jobs table once, under an exclusive lock."""

from django.db import migrations

import jobs.fields


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0014_includable_files'),
    ]

    operations = [
        migrations.AlterField(
            model_name='job',
            name='metadata',
            field=jobs.fields.OrderedJSONField(default=dict),
        ),
    ]
