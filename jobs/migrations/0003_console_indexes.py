"""Index ended jobs for the operators' console: by their end, and by the start of their title and character.

Entries of running jobs would be written again with every change of the status, so the last two have none.
"""

from django.contrib.postgres.operations import RemoveIndexConcurrently
from django.db import migrations, models

from simservice.postgresql import migration_rules

ENDED = models.Index(
    fields=["completed_at"],
    include=["error_code", "account", "build", "created_at", "started_at", "credits_consumed"],
    condition=models.Q(completed_at__isnull=False),
    name="job_ended",
)
# `text_pattern_ops` supports a search for the start of a text.
BY_START = {
    "job_by_title": "UPPER(LEFT(COALESCE(NULLIF(given_title, ''), metadata::json ->> 'title'), 100))",
    "job_by_any_character": "UPPER(character)",
}


def by_start(name: str) -> list[migrations.RunSQL]:
    """Return the operations that create one of the indexes; they can be run again after an interruption."""
    drop = f"DROP INDEX CONCURRENTLY IF EXISTS {name}"
    create = (
        f"CREATE INDEX CONCURRENTLY {name} ON jobs_job (({BY_START[name]}) text_pattern_ops) "
        "WHERE completed_at IS NOT NULL"
    )
    return [migrations.RunSQL(drop, migrations.RunSQL.noop), migrations.RunSQL(create, drop)]


class Migration(migrations.Migration):
    phase = "expand"
    atomic = False
    dependencies = [("jobs", "0002_triggers_and_vacuum")]

    operations = [
        *migration_rules.concurrently("job", ENDED),
        *migration_rules.without_limits(
            *(operation for name in BY_START for operation in by_start(name)),
            # Replaced by the first one
            RemoveIndexConcurrently("job", "job_with_error"),
        ),
    ]
