"""Index the waiting jobs that an attempt returned to the queue. Claims look whether there are any."""

from django.db import migrations, models

from simservice.postgresql import migration_rules

RETURNED = models.Index(
    fields=["attempt"],
    condition=models.Q(paused_at=None, status__in=("pending", "queued")) & models.Q(attempt__gt=0),
    name="job_returned",
)


class Migration(migrations.Migration):
    phase = "expand"
    atomic = False
    dependencies = [("jobs", "0005_adoption_pauses_and_closures")]

    operations = migration_rules.concurrently("job", RETURNED)
