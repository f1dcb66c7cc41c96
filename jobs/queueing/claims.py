"""Claims of waiting jobs by workers."""

from jobs import lifecycle
from jobs.models import Job


def claim(worker: str) -> Job | None:
    """Claim and return the best waiting job, or None."""
    return lifecycle.claim(worker)
