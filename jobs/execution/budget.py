"""Budget of a running job: what it can still spend, by `docs/reference/contract.md#reservations`."""

import logging
import time

from billing.errors import InsufficientCredits
from billing.models import Hold
from jobs import lifecycle
from jobs.models import SLICE_SECONDS, Job

logger = logging.getLogger(__name__)

# With less than this held ahead of the simulator, the next slice is asked for.
LEAST_AHEAD_SECONDS = 15
# After a refusal credits may arrive, or the database answer, while what is held is used up.
ASKED_AGAIN_AFTER_SECONDS = 5.0


class Budget:
    """What is held for a job's simulator, in credits and without the fee.

    `held_credits` grows only after the database has confirmed it, so a deadline made from it is always covered.
    """

    def __init__(self, job: Job, *, held_credits: int) -> None:
        self.job = job
        self.held_credits = held_credits
        self.next_at = 0.0

    @classmethod
    def of(cls, job: Job) -> "Budget":
        """Return the budget of a job from its hold, which an earlier attempt may have extended. One query."""
        held = Hold.objects.values_list("credits", flat=True).get(pk=job.pk)
        return cls(job, held_credits=min(held - job.priority_fee_credits, job.ceiling_credits))

    @property
    def seconds(self) -> int:
        """Return how long the simulator may run in all: the seconds paid for, rounded down."""
        return min(self.held_credits // self.job.credits_per_second, self.job.ceiling_runtime_seconds)

    @property
    def is_whole(self) -> bool:
        """Tell whether everything up to the job's ceiling is held."""
        return self.held_credits >= self.job.ceiling_credits

    def extend_when_due(self, *, ran_seconds: float) -> None:
        """Hold the next slice when what is held runs short; what the account cannot pay for is left out.

        Raises a database error, and nothing has changed then.
        """
        if self.is_whole or self.seconds - ran_seconds >= LEAST_AHEAD_SECONDS or time.monotonic() < self.next_at:
            return
        wanted = min(SLICE_SECONDS * self.job.credits_per_second, self.job.ceiling_credits - self.held_credits)
        self.next_at = time.monotonic() + ASKED_AGAIN_AFTER_SECONDS
        try:
            if self._extend(wanted):
                self.next_at = 0.0
        except InsufficientCredits as shortage:
            self._extend_by_the_rest(shortage.available_credits)

    def _extend_by_the_rest(self, available: int) -> None:
        """Hold as much of the rest as makes whole seconds together with what is already held."""
        rest = available - (self.held_credits + available) % self.job.credits_per_second
        if rest > 0:
            try:
                self._extend(rest)
            except InsufficientCredits:
                logger.info("the last credits for job %s went elsewhere", self.job.pk)

    def _extend(self, credits_more: int) -> bool:
        extended = lifecycle.extend_hold(self.job, credits_more)
        if extended:
            self.held_credits += credits_more
        return extended

    def charge(self, wall_ms: int) -> int:
        """Return the credits for simulator time, at most the hold: `docs/reference/contract.md#billing`."""
        seconds = -(-wall_ms // 1000)
        return min(seconds * self.job.credits_per_second, self.held_credits)
