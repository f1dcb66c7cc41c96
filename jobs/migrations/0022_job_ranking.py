"""Add the list of all profilesets of a job, in a table of its own. The code of the previous version keeps working."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0021_titles_and_history")]

    operations = [
        migrations.CreateModel(
            name="JobRanking",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="ranking",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("document", models.BinaryField()),
            ],
        ),
    ]
