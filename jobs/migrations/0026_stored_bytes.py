"""Add the count of an account's stored bytes."""

import django.db.models.deletion
from django.db import migrations, models

class Migration(migrations.Migration):
    phase = "expand"

    dependencies = [
        ('billing', '0009_plan_retention_and_storage'),
        ('jobs', '0025_trace_parent'),
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
    ]
