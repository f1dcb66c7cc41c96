"""Add the days of retention and the bytes of storage of a plan. Null means the default, also for the previous version."""

from django.db import migrations, models


class Migration(migrations.Migration):
    phase = "expand"

    dependencies = [
        ('billing', '0008_parallel_slots'),
    ]

    operations = [
        migrations.AddField(
            model_name='plan',
            name='retention_days',
            field=models.PositiveSmallIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='plan',
            name='max_stored_bytes',
            field=models.PositiveBigIntegerField(blank=True, null=True),
        ),
        migrations.AddConstraint(
            model_name='plan',
            constraint=models.CheckConstraint(condition=models.Q(('retention_days', None), ('retention_days__range', (1, 3650)), _connector='OR'), name='plan_retention_in_range'),
        ),
    ]
