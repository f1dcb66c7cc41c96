"""Record which attempt created a sharded stage, because later attempts can adopt it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    phase = "expand"
    dependencies = [("jobs", "0004_share_inputs")]

    operations = [
        migrations.AddField("shardedstage", "created_by_attempt", models.SmallIntegerField(null=True)),
    ]
