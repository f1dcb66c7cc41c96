"""Index the entries that change a balance, except charges for jobs."""

from django.db import migrations, models
from django.db.models import Q

from simservice.postgresql.migration_rules import concurrently


class Migration(migrations.Migration):
    phase = "expand"
    atomic = False
    dependencies = [("billing", "0002_triggers_and_vacuum")]
    operations = concurrently(
        "entry",
        models.Index(
            fields=["account", "-id"],
            condition=Q(job_id=None) | Q(target="expired"),
            name="entry_besides_charges",
        ),
    )
