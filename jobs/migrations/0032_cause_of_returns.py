"""Add the cause for which an attempt ended without ending its job."""

from django.db import migrations, models


class Migration(migrations.Migration):
    phase = "expand"

    dependencies = [("jobs", "0031_warnings")]

    operations = [
        migrations.AddField(
            model_name="jobevent",
            name="cause",
            field=models.CharField(
                blank=True,
                choices=[("lost", "Lost"), ("returned", "Returned")],
                db_default="",
                default="",
                max_length=8,
            ),
        ),
    ]
