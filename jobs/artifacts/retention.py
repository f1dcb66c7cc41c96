"""Retention of jobs: `docs/reference/limits.md#retention`.

Each job is kept for the days of its plan at submission, so a changed plan affects new jobs only.

At the end of the retention period, links, files, the profile text, the details and the list entry of a job become
unavailable at once. Files, text, details and metadata entries are removed soon after. The rows of the job, its
idempotency key and its artifacts remain, so the API can distinguish expired artifacts from unknown ones.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from itertools import chain, islice

from django.conf import settings
from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from billing.models import Account, Plan
from jobs.artifacts import artifact_files, storage
from jobs.enums import TERMINAL
from jobs.models import Job, JobDetails, JobProfile, JobRanking
from simservice.clocks import database_time

logger = logging.getLogger(__name__)

# Downloads that started in time can finish.
GRACE = timedelta(hours=1)
CLEAR_BATCH = 500
# If the storage does not remove the files of so many jobs, the round ends.
MAX_LEFT = 5_000
# Shorter than the interval between two rounds, so that rounds do not overlap if the storage is slow
ROUND_SECONDS = 45.0
# The days of all jobs that are not cleared yet, each found by one step in the index `job_to_expire`
_UNCLEARED = f"""
    SELECT retention_days FROM jobs_job
    WHERE cleared_at IS NULL AND status IN ({", ".join(f"'{each}'" for each in TERMINAL)})
        AND retention_days > {{more_than}} ORDER BY retention_days LIMIT 1
"""  # noqa: S608 - constants
PERIODS = f"""
    WITH RECURSIVE period (days) AS (
        ({_UNCLEARED.format(more_than="0")})
        UNION ALL
        SELECT ({_UNCLEARED.format(more_than="period.days")}) FROM period WHERE days IS NOT NULL
    )
    SELECT days FROM period WHERE days IS NOT NULL
"""  # noqa: S608 - constants
# By the whole key, which the metadata of the jobs contains
DELETE_METADATA_ENTRIES = """
    DELETE FROM jobs_metadataentry AS entry
    USING jobs_job AS job, json_each_text(job.metadata::json) AS metadata
    WHERE job.id = ANY (%s) AND entry.account_id = job.account_id AND entry.job_id = job.id
        AND entry.digest = jobs_metadata_digest(metadata.key, metadata.value)
"""


def days_of(source: Job | Plan) -> int:
    """Return the days for which a job is kept, or the new jobs of a plan."""
    return source.retention_days or settings.RETENTION_DAYS


def window_start(account: Account) -> datetime:
    """Return the start of the period that the account's lists show, which is the current plan's."""
    return timezone.now() - timedelta(days=days_of(account.plan))


def is_kept(job: Job) -> bool:
    """Return whether the job is within its retention period, so its links and files are available."""
    return job.cleared_at is None and kept_until(job) >= timezone.now()


def kept_until(job: Job) -> datetime:
    """Return the end of the job's retention period."""
    return job.created_at + timedelta(days=days_of(job))


def overdue() -> list[QuerySet[Job]]:
    """Return the ended jobs whose files should have been removed, by their number of days.

    An index finds the jobs of one number of days, oldest first.
    """
    return [_overdue(days) for days in (None, *_periods())]


def longest_window_start() -> datetime:
    """Return the start of the longest retention period of any kept job."""
    return database_time() - timedelta(days=max([settings.RETENTION_DAYS, *_periods()]))


def _periods() -> list[int]:
    """Return the days of retention of ended jobs that are not cleared, apart from the default."""
    with connection.cursor() as cursor:
        cursor.execute(PERIODS)
        return [days for (days,) in cursor.fetchall()]


def _overdue(retention_days: int | None) -> QuerySet[Job]:
    """Return the overdue jobs with this number of days, oldest first."""
    period = GRACE + timedelta(days=retention_days or settings.RETENTION_DAYS)
    expired = Job.objects.filter(cleared_at=None, status__in=TERMINAL, created_at__lt=Now() - period)
    # With the first column, PostgreSQL reads the index in order for null too.
    return expired.filter(retention_days=retention_days).order_by("retention_days", "created_at")


def count_overdue() -> int:
    """Return the number of overdue jobs."""
    return sum(jobs.count() for jobs in overdue())


def clear_expired() -> int:
    """Clear expired jobs, oldest first, until none is left or the round is over. Return how many.

    Jobs whose files the storage fails to remove are left to the next round; if they are many, the round ends. Two
    rounds at once are safe. Raises DatabaseError.
    """
    until, cleared = time.monotonic() + ROUND_SECONDS, 0
    left: set[int] = set()
    while time.monotonic() < until and len(left) < MAX_LEFT:
        batch = _batch(without=left)
        done = clear_jobs(batch, until=until)
        cleared += len(done)
        left |= set(batch) - done
        if len(batch) < CLEAR_BATCH:
            break
    return cleared


def _batch(*, without: Collection[int]) -> list[int]:
    found = (jobs.exclude(pk__in=without).values_list("pk", flat=True)[:CLEAR_BATCH] for jobs in overdue())
    return list(islice(chain.from_iterable(found), CLEAR_BATCH))


def clear_jobs(job_ids: Iterable[int], *, until: float) -> set[int]:
    """Clear ended jobs, folder by folder, until the monotonic time `until`. Return those that were cleared."""
    folders: dict[str, list[int]] = defaultdict(list)
    for job_id in job_ids:
        folders[artifact_files.folder_of(job_id)].append(job_id)
    return set[int]().union(*(_clear_folder(folder, ids, until=until) for folder, ids in folders.items()))


def _clear_folder(folder: str, job_ids: Collection[int], *, until: float) -> set[int]:
    """Clear ended jobs that share a folder, unless it takes longer than `until` (monotonic). Return those cleared.

    Files are removed first. After a crash in between, the jobs are cleared again.
    """
    if time.monotonic() > until:
        return set()
    try:
        without_files = artifact_files.remove_all(folder, job_ids, until=until)
    except OSError as error:
        logger.warning("clearing %s expired jobs failed and will be retried: %s", len(job_ids), error)
        return set()
    with transaction.atomic():
        uncleared = Job.objects.select_for_update(no_key=True, skip_locked=True).filter(cleared_at=None)
        locked = list(uncleared.filter(pk__in=without_files).values_list("pk", flat=True))
        JobProfile.objects.filter(pk__in=locked).delete()
        JobDetails.objects.filter(pk__in=locked).delete()
        JobRanking.objects.filter(pk__in=locked).delete()
        with connection.cursor() as cursor:
            cursor.execute(DELETE_METADATA_ENTRIES, [locked])
        storage.subtract(locked)
        Job.objects.filter(pk__in=locked).update(cleared_at=Now())
    return set(locked)
