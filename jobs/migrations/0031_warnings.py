"""Add the warnings of jobs that ended without a summary."""

from django.db import migrations, models


class Migration(migrations.Migration):
    phase = "expand"

    dependencies = [("jobs", "0030_build_html_failure")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="warnings",
            field=models.JSONField(db_default=[], default=list),
        ),
    ]
