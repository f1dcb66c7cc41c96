"""Add the permission to end the grace period of deletions. Changes no table."""

from django.db import migrations


class Migration(migrations.Migration):
    phase = "expand"

    dependencies = [
        ('privacy', '0001_initial'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='accountdeletion',
            options={'permissions': [('end_grace_period', 'Can end the grace period of account deletions')]},
        ),
    ]
