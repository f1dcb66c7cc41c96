"""Narrow the indexes of jobs to the rows that queries look for, and drop two that no query uses.

A job changes its status five times, and each change adds an entry to every index that contains the row. Indexes are
created and dropped concurrently, so the table stays readable and writable. The migration is not atomic; if it is
interrupted, run it again, in either direction. It drops each index before it creates it, because an interrupted
CREATE INDEX CONCURRENTLY leaves an invalid index.
"""

import django.db.models.deletion
from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models

# A concurrent operation waits for all older transactions, such as a backup.
WAIT = "SET lock_timeout = 0"
WAIT_NO_LONGER = "RESET lock_timeout"
# API keys are revoked and never deleted, and no query finds jobs by their key.
DROP_KEYS = "DROP INDEX CONCURRENTLY IF EXISTS jobs_job_api_key_id_a43a9ce8"
CREATE_KEYS = [DROP_KEYS, "CREATE INDEX CONCURRENTLY jobs_job_api_key_id_a43a9ce8 ON jobs_job (api_key_id)"]
# Created by the framework for LIKE, which no query of a token uses.
DROP_TOKENS = "DROP INDEX CONCURRENTLY IF EXISTS jobs_job_share_token_10d2eada_like"
CREATE_TOKENS = [
    DROP_TOKENS,
    "CREATE INDEX CONCURRENTLY jobs_job_share_token_10d2eada_like ON jobs_job (share_token varchar_pattern_ops)",
]


def drop(name: str) -> migrations.RunSQL:
    """Return the operation that drops an index, in both directions.

    It precedes the creation of the index. Forwards, that is the next operation; backwards, the one before it.
    """
    statement = f"DROP INDEX CONCURRENTLY IF EXISTS {name}"
    return migrations.RunSQL(statement, statement)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('billing', '0006_grant_reasons_and_pools'),
        ('clients', '0005_login_indexes'),
        ('jobs', '0015_ordered_metadata'),
    ]

    operations = [
        migrations.RunSQL(WAIT, WAIT_NO_LONGER),
        drop("job_to_clear"),
        AddIndexConcurrently(
            model_name='job',
            index=models.Index(condition=models.Q(('cleared_at', None), ('status__in', ('completed', 'failed', 'cancelled', 'timed_out'))), fields=['created_at'], name='job_to_clear'),
        ),
        RemoveIndexConcurrently(model_name='job', name='job_uncleared'),
        drop("job_uncleared"),
        drop("job_on_build"),
        AddIndexConcurrently(
            model_name='job',
            index=models.Index(condition=models.Q(('build__isnull', False)), fields=['build', 'account', '-id'], name='job_on_build'),
        ),
        RemoveIndexConcurrently(model_name='job', name='job_by_build'),
        drop("job_by_build"),
        migrations.RunSQL(
            DROP_KEYS,
            CREATE_KEYS,
            state_operations=[
                migrations.AlterField(
                    model_name='job',
                    name='api_key',
                    field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='jobs', to='clients.apikey'),
                ),
            ],
        ),
        migrations.RunSQL(DROP_TOKENS, CREATE_TOKENS),
        migrations.RunSQL(WAIT_NO_LONGER, WAIT),
    ]
