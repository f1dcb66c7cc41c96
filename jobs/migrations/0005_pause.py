"""Let jobs be paused."""

from django.db import migrations, models


class Migration(migrations.Migration):
    phase = "expand"
    dependencies = [("jobs", "0004_share_inputs")]

    operations = [
        migrations.AddField("job", "pause_requested_at", models.DateTimeField(null=True)),
        migrations.AddField("job", "paused_at", models.DateTimeField(null=True)),
        migrations.AlterField(
            "jobevent",
            "cause",
            models.CharField(
                blank=True,
                choices=[
                    ("lost", "Lost"),
                    ("returned", "Returned"),
                    ("paused", "Paused"),
                    ("resumed", "Resumed"),
                ],
                db_default="",
                default="",
                max_length=8,
            ),
        ),
    ]
