"""Add the limit of slots for each job. Plans that the previous version creates have the default, one slot."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('billing', '0007_autovacuum'),
    ]

    operations = [
        migrations.AddField(
            model_name='plan',
            name='max_parallel_slots',
            field=models.PositiveSmallIntegerField(db_default=1, default=1),
        ),
        migrations.AddConstraint(
            model_name='plan',
            constraint=models.CheckConstraint(condition=models.Q(('max_parallel_slots__range', (1, 256))), name='plan_slots_in_range'),
        ),
    ]
