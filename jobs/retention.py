"""Retention of jobs: `docs/reference/contract.md#retention`.

At the end of the retention period, links, files, the profile text, the details and the list entry of a job become
unavailable at once. Files, text, details and metadata entries are removed soon after. The rows of the job, its
idempotency key and its artifacts remain, so the API can distinguish expired artifacts from unknown ones.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Collection
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from jobs import artifacts
from jobs.enums import TERMINAL
from jobs.models import Job, JobDetails, JobProfile, JobRanking

logger = logging.getLogger(__name__)

# Downloads that started in time can finish.
GRACE = timedelta(hours=1)
CLEAR_BATCH = 500
# Shorter than the interval between two rounds, so that rounds do not overlap if the storage is slow
ROUND_SECONDS = 45.0
# By the whole key, which the metadata of the jobs contains
DELETE_METADATA_ENTRIES = """
    DELETE FROM jobs_metadataentry AS entry
    USING jobs_job AS job, json_each_text(job.metadata::json) AS metadata
    WHERE job.id = ANY (%s) AND entry.account_id = job.account_id AND entry.job_id = job.id
        AND entry.digest = jobs_metadata_digest(metadata.key, metadata.value)
"""


def window_start() -> datetime:
    """Return the start of the retention period: older jobs have expired."""
    return timezone.now() - timedelta(days=settings.RETENTION_DAYS)


def is_kept(job: Job) -> bool:
    """Return whether the job is within its retention period, so its links and files are available."""
    return job.cleared_at is None and job.created_at >= window_start()


def kept_until(job: Job) -> datetime:
    """Return the end of the job's retention period."""
    return job.created_at + timedelta(days=settings.RETENTION_DAYS)


def overdue() -> QuerySet[Job]:
    """Return the ended jobs whose files should have been removed."""
    return Job.objects.filter(cleared_at=None, created_at__lt=window_start() - GRACE, status__in=TERMINAL)


def clear_expired() -> int:
    """Clear expired jobs, oldest first, until none is left or the round is over. Return how many.

    Files that the storage fails to remove are retried in the next round. Two rounds at once are safe. Raises
    DatabaseError.
    """
    until, cleared = time.monotonic() + ROUND_SECONDS, 0
    while time.monotonic() < until:
        done = clear_batch(until=until)
        cleared += done
        if done < CLEAR_BATCH:
            break
    return cleared


def clear_batch(*, until: float) -> int:
    """Clear a batch of expired jobs, folder by folder, until the monotonic time `until`. Return how many."""
    folders: dict[str, list[int]] = defaultdict(list)
    for job_id in overdue().order_by("created_at").values_list("pk", flat=True)[:CLEAR_BATCH]:
        folders[artifacts.folder_of(job_id)].append(job_id)
    return sum(clear(folder, job_ids, until=until) for folder, job_ids in folders.items())


def clear(folder: str, job_ids: Collection[int], *, until: float) -> int:
    """Clear ended jobs that share a folder, unless it takes longer than `until` (monotonic). Return how many.

    Files are removed first. After a crash in between, the jobs are cleared again.
    """
    if time.monotonic() > until:
        return 0
    try:
        artifacts.remove_all(folder, job_ids, until=until)
    except OSError as error:
        logger.warning("clearing %s expired jobs failed and will be retried: %s", len(job_ids), error)
        return 0
    with transaction.atomic():
        uncleared = Job.objects.select_for_update(no_key=True, skip_locked=True).filter(cleared_at=None)
        locked = list(uncleared.filter(pk__in=job_ids).values_list("pk", flat=True))
        JobProfile.objects.filter(pk__in=locked).delete()
        JobDetails.objects.filter(pk__in=locked).delete()
        JobRanking.objects.filter(pk__in=locked).delete()
        with connection.cursor() as cursor:
            cursor.execute(DELETE_METADATA_ENTRIES, [locked])
        return Job.objects.filter(pk__in=locked).update(cleared_at=Now())
