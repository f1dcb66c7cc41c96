"""Index the jobs that may be claimed, without paused ones, and those that an attempt returned to the queue."""

from django.db import migrations, models

from simservice.postgresql import migration_rules

IS_CLAIMABLE = models.Q(worker="", completed_at=None, paused_at=None)
CLAIMABLE = models.Index(
    fields=["priority", "id"], include=["vcpus"], condition=IS_CLAIMABLE, name="job_claimable"
)
RETURNED = models.Index(fields=["id"], condition=IS_CLAIMABLE & models.Q(attempt__gt=0), name="job_returned")


class Migration(migrations.Migration):
    phase = "expand"
    atomic = False
    dependencies = [("jobs", "0005_adoption_pauses_and_closures")]

    operations = [
        *migration_rules.concurrently("job", CLAIMABLE),
        *migration_rules.concurrently("job", RETURNED),
    ]
