"""The budget of a running job: the credits reserved for it (`docs/reference/limits.md#reservations`)."""

import logging
import math
import time

from billing import prices
from billing.errors import InsufficientCredits
from jobs.lifecycle import job_moves
from jobs.models import SLICE_SECONDS, Job

logger = logging.getLogger(__name__)

# The next slice is reserved when less than this is left.
MIN_AHEAD_SECONDS = 15
# If a slice was refused or the database failed, the next one may succeed before the reserved time is over.
RETRY_SECONDS = 5.0


class Budget:
    """The credits held for a job's simulator, without the priority fee.

    `held_credits` grows only after the database has confirmed it, so a deadline derived from it is always covered.
    """

    def __init__(self, job: Job, *, held_credits: int) -> None:
        self.job = job
        self.held_credits = held_credits
        self.next_at = 0.0

    @classmethod
    def of(cls, job: Job, *, hold_credits: int) -> "Budget":
        """Return the budget of a job from its hold, which an earlier attempt may have extended."""
        return cls(job, held_credits=min(hold_credits - job.priority_fee_credits, job.ceiling_credits))

    @property
    def seconds(self) -> int:
        """Return how many whole seconds the simulator may run in total."""
        held = prices.seconds_for(self.held_credits, credits_per_second=self.job.credits_per_second)
        return min(held, self.job.ceiling_runtime_seconds)

    @property
    def is_complete(self) -> bool:
        """Return whether all credits up to the job's limit are held."""
        return self.held_credits >= self.job.ceiling_credits

    def extend_when_due(self, *, ran_seconds: float, ahead_seconds: float = MIN_AHEAD_SECONDS) -> None:
        """Hold the next slice, or as much as the account can pay for, if less than `ahead_seconds` are left.

        A slice is one minute, or longer if `ahead_seconds` would not be left otherwise. Raises a database error and
        then changes nothing.
        """
        lacking = ran_seconds + ahead_seconds - self.seconds
        if self.is_complete or lacking <= 0 or time.monotonic() < self.next_at:
            return
        slice_credits = max(SLICE_SECONDS, math.ceil(lacking)) * self.job.credits_per_second
        wanted = min(slice_credits, self.job.ceiling_credits - self.held_credits)
        self.next_at = time.monotonic() + RETRY_SECONDS
        try:
            if self._extend(wanted):
                self.next_at = 0.0
        except InsufficientCredits as shortage:
            self._extend_by_the_rest(shortage.available_credits)

    def _extend_by_the_rest(self, available: int) -> None:
        """Hold as many of the available credits as make whole seconds together with those already held."""
        rest = available - (self.held_credits + available) % self.job.credits_per_second
        if rest > 0:
            try:
                self._extend(rest)
            except InsufficientCredits:
                logger.info("job %s: the account's last credits were used by another job", self.job.pk)

    def _extend(self, credits_more: int) -> bool:
        extended = job_moves.extend_hold(self.job, credits_more)
        if extended:
            self.held_credits += credits_more
        return extended

    def charge(self, wall_ms: int, *, is_capped: bool = False) -> int:
        """Return the credits for simulator time, at most the hold (`docs/reference/limits.md#billing`).

        A run that was stopped at the cap is billed the cap, even if that is not a whole number of seconds.
        """
        if is_capped:
            return self.held_credits
        price = prices.of_time(wall_ms, credits_per_second=self.job.credits_per_second)
        return min(price, self.held_credits)
