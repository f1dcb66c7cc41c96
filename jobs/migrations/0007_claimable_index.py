"""Index waiting jobs without paused ones, which claims would have to skip.

The previous version claims paused jobs, so the constraint and the end of its index follow after it has stopped.
"""

from django.contrib.postgres.operations import (
    AddConstraintNotValid,
    RemoveIndexConcurrently,
    ValidateConstraint,
)
from django.db import migrations, models

from simservice.postgresql import migration_rules

CLAIMABLE = models.Index(
    fields=["priority", "id"],
    include=["vcpus"],
    condition=models.Q(paused_at=None, status__in=("pending", "queued")),
    name="job_claimable",
)
PAUSED_WAITS = models.CheckConstraint(
    condition=~models.Q(status__in=("starting", "running")) | models.Q(paused_at=None), name="job_paused_waits"
)


class Migration(migrations.Migration):
    phase = "contract"
    atomic = False
    dependencies = [("jobs", "0006_returned_jobs")]

    operations = [
        *migration_rules.concurrently("job", CLAIMABLE),
        *migration_rules.without_limits(RemoveIndexConcurrently("job", "job_waiting")),
        AddConstraintNotValid("job", PAUSED_WAITS),
        *migration_rules.without_limits(ValidateConstraint("job", PAUSED_WAITS.name)),
    ]
