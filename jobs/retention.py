"""How long what a job leaves behind can be had: links, files and the list reach back to one moment."""

from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from jobs.models import Job


def window_start() -> datetime:
    """Return the moment that kept jobs were submitted after."""
    return timezone.now() - timedelta(days=settings.RETENTION_DAYS)


def is_kept(job: Job) -> bool:
    """Tell whether the job's links and files can still be had."""
    return job.created_at >= window_start()
