"""Claims of waiting jobs by workers."""

from django.db import transaction
from django.db.models.functions import Now

from jobs import lifecycle
from jobs.enums import WAITING
from jobs.models import Job


def claim(worker: str) -> Job | None:
    """Claim and return the best waiting job, or None.

    The best job has the highest priority and, among equals, the earliest submission
    (`docs/reference/contract.md#priority`). Overdue jobs are skipped; the sweep ends them.
    """
    with transaction.atomic():
        waiting = Job.objects.filter(status__in=WAITING, queue_deadline_at__gt=Now())
        job = waiting.select_for_update(skip_locked=True).order_by("priority", "id").first()
        if job is None or not lifecycle.start_attempt(job, worker=worker):
            return None
    return job
