"""When the fee of `high` priority is due: if it buys an earlier start than `standard` (contract, section 7)."""

from jobs.lifecycle import LEASE_EXPIRED
from jobs.models import HELD, WAITING, Job, Priority


def buys_earlier_start(*, live_slots: int) -> bool:
    """Tell whether a `high` job submitted now starts earlier than a `standard` one would.

    With F free slots, A waiting `high` jobs and O waiting `standard` jobs it does if O >= 1 and F <= A + O. Any
    worker runs any job, whatever its width. Two queries, which read no more rows than there are slots.

    Submissions that are not committed yet are not counted. Counting them could only make the fee due, so two
    submissions at the same moment never pay more than one after the other.
    """
    # Counted first: a job that is claimed between the two queries counts in neither, and no fee comes of it.
    free = live_slots - Job.objects.filter(~LEASE_EXPIRED, status__in=HELD).count()
    ahead = Job.objects.filter(status__in=WAITING, priority__lte=Priority.STANDARD)
    # The `standard` jobs come first; F of them are enough to compare.
    lanes = list(ahead.order_by("-priority", "-id").values_list("priority", flat=True)[: max(free, 1)])
    return Priority.STANDARD in lanes and len(lanes) >= free
