"""How credits are reserved for a job without a cap: slice by slice (contract, section 0)."""

from jobs.models import Job

SLICE_SECONDS = 60


def first_slice(job: Job) -> int:
    """Return the credits that are held before such a job may wait."""
    return min(SLICE_SECONDS * job.credits_per_second, job.ceiling_credits)
