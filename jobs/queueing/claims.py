"""Claims: a worker takes the best waiting job."""

from django.db import transaction
from django.db.models.functions import Now

from jobs import lifecycle
from jobs.enums import WAITING
from jobs.models import Job


def claim(worker: str) -> Job | None:
    """Give the best waiting job to `worker`, or None when nothing waits.

    The best job has the highest priority and, within it, the earliest submission
    (`docs/reference/contract.md#priority`). Jobs past their queue deadline are left to the sweep.
    """
    with transaction.atomic():
        waiting = Job.objects.filter(status__in=WAITING, queue_deadline_at__gt=Now())
        job = waiting.select_for_update(skip_locked=True).order_by("priority", "id").first()
        if job is None or not lifecycle.start_attempt(job, worker=worker):
            return None
    return job
