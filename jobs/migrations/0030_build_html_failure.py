"""Add the reason why a build cannot write HTML reports."""

from django.db import migrations, models


class Migration(migrations.Migration):
    phase = "expand"

    dependencies = [
        ('jobs', '0029_job_with_error'),
    ]

    operations = [
        migrations.AddField(
            model_name='build',
            name='html_failure',
            field=models.CharField(blank=True, db_default='', default='', max_length=500, verbose_name='HTML failure'),
        ),
    ]
