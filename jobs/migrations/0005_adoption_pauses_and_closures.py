"""Let later attempts adopt sharded stages, let jobs be paused, and add paused lanes and drained machines."""

from django.db import migrations, models
from django.db.models import Q
from django.db.models.functions import Coalesce, Now


class Migration(migrations.Migration):
    phase = "expand"
    dependencies = [("jobs", "0004_share_inputs")]

    operations = [
        migrations.AddField("shardedstage", "created_by_attempt", models.SmallIntegerField(null=True)),
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
        migrations.CreateModel(
            "Closure",
            [
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                (
                    "lane",
                    models.PositiveSmallIntegerField(
                        choices=[(0, "High"), (1, "Standard"), (2, "Background")], null=True
                    ),
                ),
                ("host", models.CharField(blank=True, max_length=253)),
                ("reason", models.CharField(blank=True, max_length=200)),
                ("began_at", models.DateTimeField(db_default=Now())),
                ("began_by", models.CharField(max_length=300)),
                ("ended_at", models.DateTimeField(null=True)),
                ("ended_by", models.CharField(blank=True, max_length=300)),
            ],
            {
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(lane__in=[0, 1, 2], host="") | (Q(lane=None) & ~Q(host="")),
                        name="closure_of_lane_or_machine",
                    ),
                    models.UniqueConstraint(
                        Coalesce("lane", -1), "host", condition=Q(ended_at=None), name="closure_one_current"
                    ),
                ],
            },
        ),
    ]
