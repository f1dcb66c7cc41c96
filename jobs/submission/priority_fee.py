"""The fee of `high` priority, due only if the job starts earlier: `docs/reference/limits.md#priority-fee`."""

from jobs.enums import CLAIMED, Priority
from jobs.lifecycle.job_moves import LEASE_EXPIRED
from jobs.models import CLAIMABLE, Job


def buys_earlier_start(*, live_slots: int) -> bool:
    """Return whether a `high` job submitted now starts earlier than a `standard` job would.

    With F free slots, A waiting `high` jobs and O waiting `standard` jobs, it does if O >= 1 and F <= A + O. Any
    worker can run any job, whatever its width. Two queries, which read no more rows than there are slots.

    Slots that help with another slot's job count as free: they claim a waiting job as soon as their shard ends.

    Uncommitted submissions are not counted. Counting them could only make the fee due, so simultaneous submissions
    never cost more than consecutive ones.
    """
    # Counted first: a job claimed between the two queries is in neither result, so it cannot make the fee due.
    free = live_slots - Job.objects.filter(~LEASE_EXPIRED, status__in=CLAIMED).count()
    ahead = Job.objects.filter(CLAIMABLE, priority__lte=Priority.STANDARD)
    # `standard` jobs come first, so F rows are enough.
    lanes = list(ahead.order_by("-priority", "-id").values_list("priority", flat=True)[: max(free, 1)])
    return Priority.STANDARD in lanes and len(lanes) >= free
