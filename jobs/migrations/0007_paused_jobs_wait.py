"""Remove the index of waiting jobs, and forbid that a claimed job is paused.

The previous version uses the index and claims paused jobs, so this follows after it has stopped.
"""

from django.contrib.postgres.operations import (
    AddConstraintNotValid,
    RemoveIndexConcurrently,
    ValidateConstraint,
)
from django.db import migrations, models

from simservice.postgresql import migration_rules

PAUSED_WAITS = models.CheckConstraint(
    condition=~models.Q(status__in=("starting", "running")) | models.Q(paused_at=None), name="job_paused_waits"
)


class Migration(migrations.Migration):
    phase = "contract"
    atomic = False
    dependencies = [("jobs", "0006_claim_indexes")]

    operations = [
        *migration_rules.without_limits(RemoveIndexConcurrently("job", "job_waiting")),
        AddConstraintNotValid("job", PAUSED_WAITS),
        *migration_rules.without_limits(ValidateConstraint("job", PAUSED_WAITS.name)),
    ]
