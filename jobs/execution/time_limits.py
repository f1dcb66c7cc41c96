"""How long simulators may run: the budget of a job, and the allowance of a shard.

A stage never uses more time than its job has reserved credits for (`docs/reference/limits.md#reservations`).
"""

import logging
import math
import time
from typing import Protocol

from billing import prices
from billing.errors import InsufficientCredits
from jobs.enums import Renewal, StopReason
from jobs.execution.lease import Lease, LeaseLost
from jobs.lifecycle import cancellation, job_moves, shard_moves
from jobs.lifecycle.shard_moves import ClaimedShard
from jobs.models import MIN_AHEAD_SECONDS, SLICE_SECONDS, Job

logger = logging.getLogger(__name__)

# If a slice was refused or the database failed, the next one may succeed before the reserved time is over.
RETRY_SECONDS = 5.0
# A job may exceed its cap by two seconds, including the delay of the watch.
CAP_GRACE_SECONDS = 1.5
HINT_CHECK_SECONDS = 1.0
# With less of its allowance left, a shard asks for more every half second.
SHORT_SECONDS = 3.0


class TimeLimit(Protocol):
    """When a simulator must stop, and the lease under which it runs."""

    lease: Lease
    # By the monotonic clock; None while no simulator runs.
    started: float | None

    @property
    def most_seconds(self) -> int:
        """Return an upper limit, which applies even if the worker hangs."""

    @property
    def seconds_left(self) -> float:
        """Return how much longer the simulator may run."""

    @property
    def cap_grace_seconds(self) -> float:
        """Return how long the simulator may take to write its report after its time is over."""

    def stop_reason(self) -> StopReason | None:
        """Return why the simulator must stop now, or None if it may continue."""

    def update(self) -> None:
        """Extend the time if little is left, and notice requests to stop. Called twice a second."""


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


class Hints:
    """Hints in Redis that a job was cancelled or paused, read at most once a second."""

    def __init__(self, job: Job) -> None:
        self.job, self._next_at = job, 0.0

    def is_set(self) -> bool:
        """Return whether a hint is set; False if one was read less than a second ago."""
        if time.monotonic() < self._next_at:
            return False
        self._next_at = time.monotonic() + HINT_CHECK_SECONDS
        return cancellation.is_hinted(self.job)


class JobLimit:
    """The time limit of an attempt's simulators: a cancellation, or the end of the job's budget."""

    def __init__(self, job: Job, lease: Lease, budget: Budget) -> None:
        self.job, self.lease, self.budget = job, lease, budget
        self.hints = Hints(job)
        # Simulator time of earlier stages
        self.ran_before = 0.0
        self.started: float | None = None

    @property
    def ran_seconds(self) -> float:
        """Return how long the attempt's simulators have run in total."""
        return self.ran_before + (0.0 if self.started is None else time.monotonic() - self.started)

    def end_stage(self, seconds: float) -> None:
        """Count the simulator time of a stage."""
        self.started = None
        self.ran_before += seconds

    @property
    def most_seconds(self) -> int:
        """Return an upper limit, which applies even if the worker hangs."""
        return math.ceil(self.job.ceiling_runtime_seconds - self.ran_seconds)

    @property
    def seconds_left(self) -> float:
        """Return how much longer the attempt's simulators may run."""
        return self.budget.seconds - self.ran_seconds

    @property
    def cap_grace_seconds(self) -> float:
        """Return how long the simulator may take to write its report after the budget is used up."""
        # A budget of less than a second leaves no second for a report either.
        return min(CAP_GRACE_SECONDS, self.budget.seconds)

    @property
    def end_of_budget(self) -> StopReason:
        """Return the reason to stop at the end of the budget."""
        return StopReason.CEILING if self.budget.is_complete else StopReason.CREDITS

    def stop_reason(self) -> StopReason | None:
        """Return why the attempt must stop now: a cancellation or the end of its budget, or None."""
        if self.lease.cancelled.is_set():
            return StopReason.CANCELLED
        return self.end_of_budget if self.ran_seconds >= self.budget.seconds else None

    def update(self) -> None:
        """Notice a cancellation or a pause, and hold more credits when little time is left."""
        self.check_requests()
        self.budget.extend_when_due(ran_seconds=self.ran_seconds)

    def check_requests(self) -> None:
        """Query the database if Redis hints at a cancellation or a pause."""
        if self.hints.is_set():
            self.lease.check_requests()


class Allowance:
    """The time that a try of a shard may use, and its lease.

    Each renewal extends it so that at least `slice_ms` are left, if the stage has the funds. The process stops by
    itself when its allowance ends, so a stage never uses more time than it is funded for.
    """

    def __init__(self, job: Job, shard: ClaimedShard, *, slice_ms: int) -> None:
        self.job, self.shard, self.slice_ms = job, shard, slice_ms
        self.lease = Lease(job, self._renew)
        self.hints = Hints(job)
        self.allowance_ms = shard.allowance_ms
        # The allowance at whose end the process was stopped; 0 if it was not.
        self.used_up_ms = 0
        # Why the process must stop: a cancellation, or the conductor's reason.
        self.stop_request: StopReason | None = None
        self.started: float | None = None

    @property
    def most_seconds(self) -> int:
        """Return an upper limit: the allowance ends earlier, but can still grow."""
        return self.job.ceiling_runtime_seconds

    @property
    def ran_ms(self) -> int:
        """Return how long the simulator has run."""
        return 0 if self.started is None else round(1000 * (time.monotonic() - self.started))

    @property
    def seconds_left(self) -> float:
        """Return how much longer the simulator may run."""
        return (self.allowance_ms - self.ran_ms) / 1000

    @property
    def cap_grace_seconds(self) -> float:
        """Return how long the simulator may take to write its report after its allowance is used up."""
        return min(CAP_GRACE_SECONDS, self.allowance_ms / 1000)

    def stop_reason(self) -> StopReason | None:
        """Return why the process must stop now: a request, or the end of its allowance; None if it may continue."""
        if self.stop_request is not None:
            return self.stop_request
        if self.seconds_left > 0:
            return None
        self.used_up_ms = self.allowance_ms
        return StopReason.CEILING

    def has_more_time(self) -> bool:
        """Return whether the stage has time for a shard that was stopped at the end of its allowance.

        Raises LeaseLost or a database error.
        """
        renewal = shard_moves.renew_shard(self.shard, wanted_ms=0)
        if renewal is None:
            raise LeaseLost
        return renewal.free_ms > 0 or renewal.allowance_ms > self.used_up_ms

    def update(self) -> None:
        """Renew the lease at once if the allowance is almost used up, or if Redis hints at a request to stop."""
        if self.stop_request is None and (self.seconds_left < SHORT_SECONDS or self.hints.is_set()):
            self.lease.renew()

    def _renew(self, _: Job) -> Renewal:
        """Renew the lease of the shard, and extend the allowance. Raises a database error."""
        wanted_ms = max(0, self.ran_ms + self.slice_ms - self.allowance_ms)
        renewal = shard_moves.renew_shard(self.shard, wanted_ms=wanted_ms)
        if renewal is None:
            return Renewal.LOST
        self.allowance_ms = renewal.allowance_ms
        if renewal.is_cancelled:
            self.stop_request = StopReason.CANCELLED
            return Renewal.CANCEL_REQUESTED
        if renewal.stop_reason:
            self.stop_request = StopReason(renewal.stop_reason)
        return Renewal.DONE
