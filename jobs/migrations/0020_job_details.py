"""Add the details of a job's report, in a table of their own. The code of the previous version keeps working."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0019_run_tries")]

    operations = [
        migrations.CreateModel(
            name="JobDetails",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="details",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("version", models.PositiveSmallIntegerField()),
                ("document", models.BinaryField()),
            ],
        ),
    ]
