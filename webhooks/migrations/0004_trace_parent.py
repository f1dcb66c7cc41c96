"""Add the trace of jobs' requests to the rows. The default is not written into existing rows."""

from django.db import migrations, models


class Migration(migrations.Migration):
    phase = "expand"

    dependencies = [
        ('webhooks', '0003_autovacuum'),
    ]

    operations = [
        migrations.AddField(
            model_name='event',
            name='trace_parent',
            field=models.CharField(blank=True, db_default='', default='', max_length=55),
        ),
    ]
