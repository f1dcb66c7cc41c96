"""How long what a job leaves behind can be had, and its removal afterwards.

Links, files, the profile's text and the list reach back to one moment. What is older is gone for callers at
once, and removed soon after. The job's own row stays with its facts, and so do its idempotency key and the rows
of its artifacts, by which a caller learns that one has expired.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Collection
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from jobs import artifacts
from jobs.enums import TERMINAL
from jobs.models import Job, JobProfile

logger = logging.getLogger(__name__)

# A download that began in time may end.
GRACE = timedelta(hours=1)
CLEARED_AT_ONCE = 500
# Below the time between two rounds, so that a slow storage does not fill the workers with them.
ROUND_SECONDS = 45.0


def window_start() -> datetime:
    """Return the moment that kept jobs were submitted after."""
    return timezone.now() - timedelta(days=settings.RETENTION_DAYS)


def is_kept(job: Job) -> bool:
    """Tell whether the job's links and files can still be had."""
    return job.cleared_at is None and job.created_at >= window_start()


def overdue() -> QuerySet[Job]:
    """Return the ended jobs whose files should be gone and are not."""
    return Job.objects.filter(cleared_at=None, created_at__lt=window_start() - GRACE, status__in=TERMINAL)


def clear_expired() -> int:
    """Clear jobs, those submitted first, until none is left or the round is over; return how many.

    What the storage does not let go now is tried again in the next round. Two rounds at once remove the same files,
    which does no harm. Raises a database error.
    """
    until, cleared = time.monotonic() + ROUND_SECONDS, 0
    while time.monotonic() < until:
        done = clear_batch(until=until)
        cleared += done
        if done < CLEARED_AT_ONCE:
            break
    return cleared


def clear_batch(*, until: float) -> int:
    """Clear a batch of jobs, folder by folder, as far as the time reaches (monotonic); return how many."""
    folders: dict[str, list[int]] = defaultdict(list)
    for job_id in overdue().order_by("created_at").values_list("pk", flat=True)[:CLEARED_AT_ONCE]:
        folders[artifacts.folder_of(job_id)].append(job_id)
    return sum(clear(folder, job_ids, until=until) for folder, job_ids in folders.items())


def clear(folder: str, job_ids: Collection[int], *, until: float) -> int:
    """Clear ended jobs that share a folder, if that is done `until` then (monotonic); return how many.

    The files go first: a crash in between leaves jobs that are cleared again.
    """
    if time.monotonic() > until:
        return 0
    try:
        artifacts.remove_all(folder, job_ids, until=until)
    except OSError as error:
        logger.warning("%s expired jobs are cleared later: %s", len(job_ids), error)
        return 0
    with transaction.atomic():
        uncleared = Job.objects.select_for_update(no_key=True, skip_locked=True).filter(cleared_at=None)
        locked = list(uncleared.filter(pk__in=job_ids).values_list("pk", flat=True))
        JobProfile.objects.filter(pk__in=locked).delete()
        return Job.objects.filter(pk__in=locked).update(cleared_at=Now())
