"""Whether jobs and the book of credits agree: a job has an open hold until it ends, and then paid what it says."""

from collections.abc import Iterator

from django.db import connection

# One statement, so that jobs and holds are seen at one moment. A hold outlives its job, whose rows are removed
# after the retention; only a resolved one may.
DISAGREEMENTS = """
SELECT sentence FROM (
    SELECT CASE
        WHEN hold.job_id IS NULL AND job.completed_at IS NULL
            THEN 'job ' || job.id || ' has not ended and has no hold'
        WHEN job.id IS NULL AND hold.resolved_at IS NULL
            THEN 'the open hold of job ' || hold.job_id || ' has no job'
        WHEN hold.account_id <> job.account_id
            THEN 'job ' || job.id || ' was paid by another account'
        WHEN job.completed_at IS NULL AND hold.resolved_at IS NOT NULL
            THEN 'job ' || job.id || ' has not ended and its hold is resolved'
        WHEN job.completed_at IS NOT NULL AND hold.resolved_at IS NULL AND hold.job_id IS NOT NULL
            THEN 'job ' || job.id || ' has ended and its hold is open'
        WHEN hold.spent <> job.credits_consumed
            THEN 'job ' || job.id || ' says it cost ' || job.credits_consumed || ' and paid ' || hold.spent
    END AS sentence
    FROM jobs_job AS job FULL JOIN billing_hold AS hold ON hold.job_id = job.id
) AS compared WHERE sentence IS NOT NULL
"""


def disagreements() -> Iterator[str]:
    """Yield a sentence for every job that the book knows otherwise. One query, reads all."""
    with connection.cursor() as cursor:
        cursor.execute(DISAGREEMENTS)
        found = cursor.fetchall()
    for (sentence,) in found:
        yield sentence
