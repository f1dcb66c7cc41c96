"""Enumerations of jobs, each defined once."""

from enum import Enum, StrEnum, auto
from typing import NamedTuple

from django.db import models

from sandbox.stop_reasons import SandboxStop


class Status(models.TextChoices):
    """The status of a job. The API shows a `PublicStatus`."""

    # Stored, but not announced to the workers yet.
    PENDING = "pending"
    # Announced and waiting for a worker, for the first time or after a lost attempt.
    QUEUED = "queued"
    # Claimed by a worker, but no simulator process has started yet.
    STARTING = "starting"
    # A simulator process of the current attempt has started.
    RUNNING = "running"
    # Terminal: the simulator ended successfully, and its report is readable.
    COMPLETED = "completed"
    # Terminal: the job ended with an error.
    FAILED = "failed"
    # Terminal: its owner cancelled the job.
    CANCELLED = "cancelled"
    # Terminal: the job reached its cap.
    TIMED_OUT = "timed_out"


class PublicStatus(models.TextChoices):
    """The status of a job as callers see it (docs/reference/api.md#job-statuses): `starting` is `queued`."""

    PENDING = "pending"
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


# No worker has the job.
WAITING = (Status.PENDING, Status.QUEUED)
# A worker has the lease.
CLAIMED = (Status.STARTING, Status.RUNNING)
ACTIVE = WAITING + CLAIMED
TERMINAL = (Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.TIMED_OUT)
# The summary is a full or partial result.
WITH_RESULT = (Status.COMPLETED, Status.CANCELLED, Status.TIMED_OUT)


class StopReason(StrEnum):
    """Why a simulator was stopped; stored on its run."""

    # Set by the worker.
    CEILING = "ceiling"  # It used the credits of the job's limit.
    CREDITS = "credits"  # The account has no more credits to reserve.
    CANCELLED = "cancelled"  # A user cancelled the job.
    SHARD_FAILED = "shard_failed"  # Another shard of the job failed.

    # Set by the sandbox; `LOST` also by the sweep.
    OVERTIME = SandboxStop.OVERTIME
    OUTPUT_FLOOD = SandboxStop.OUTPUT_FLOOD
    DISK_FLOOD = SandboxStop.DISK_FLOOD
    MEMORY_LIMIT = SandboxStop.MEMORY_LIMIT
    LOST = SandboxStop.LOST


class MoveResult(Enum):
    """The result of a move of the state machine. True only if the move was done."""

    # The job has its new status.
    DONE = auto()
    # Another attempt or a request moved the job first, so the instance is outdated.
    TAKEN = auto()
    # The instance is current, but the job does not match the guard.
    GUARD_FAILED = auto()

    def __bool__(self) -> bool:
        return self is MoveResult.DONE


class ReturnCause(models.TextChoices):
    """Why an attempt ended and its job returned to the queue, or what its owner changed while it waited."""

    # Its worker was killed or did not renew the lease. The number of lost attempts is limited.
    LOST = "lost"
    # Its worker stopped, had no build for it or found its build broken, an operator requeued the job, or its owner
    # paused it.
    RETURNED = "returned"
    # The job waits until it is resumed.
    PAUSED = "paused"
    # A worker may claim the job again.
    RESUMED = "resumed"


class Renewal(Enum):
    """The result of renewing a lease. It is true in a condition unless the lease is lost."""

    DONE = auto()
    # The lease was renewed, but the job has a cancellation request.
    CANCEL_REQUESTED = auto()
    # The lease was renewed, but the job has a request to pause it.
    PAUSE_REQUESTED = auto()
    # Another attempt has the job, or it has ended.
    LOST = auto()

    def __bool__(self) -> bool:
        return self is not Renewal.LOST


class ShardStatus(models.TextChoices):
    """The status of a shard: `docs/reference/state-machine.md#shards`."""

    # No process runs it. It has not run yet, or it was returned or lost.
    WAITING = "waiting"
    # A slot has its lease.
    RUNNING = "running"
    # Its report is stored.
    DONE = "done"
    # Its process was stopped before the end. Its report, if any, contains the finished profilesets.
    STOPPED = "stopped"
    # Its process failed, so the job fails.
    FAILED = "failed"


class ErrorCode(models.TextChoices):
    """Why a job did not complete (docs/reference/errors.md#job-error-codes)."""

    # The job waited longer than its queue limit.
    QUEUE_TIMEOUT = "queue_timeout"
    # Its owner cancelled it.
    USER_CANCELLED = "user_cancelled"
    # It reached its cap in seconds.
    EXECUTION_TIMEOUT = "execution_timeout"
    # It reached its cap in credits.
    MAX_CREDITS_REACHED = "max_credits_reached"
    # It has no cap, and the account ran out of credits.
    INSUFFICIENT_CREDITS = "insufficient_credits"
    # The simulator rejected the input.
    SIMULATION_ERROR = "simulation_error"
    # The simulator crashed, or exceeded a limit of the sandbox.
    EXECUTION_FAILED = "execution_failed"
    # The profile has nothing to simulate, or its included files break a rule.
    INPUT_INVALID = "input_invalid"
    # No build is available for the job's channel and branch.
    BUILD_UNAVAILABLE = "build_unavailable"
    # Workers were lost in every attempt.
    EXECUTION_INTERRUPTED = "execution_interrupted"
    # An error of the service.
    INTERNAL = "internal"


class Priority(models.IntegerChoices):
    """The lanes of the queue; a lower number starts first (docs/reference/api.md#priority)."""

    HIGH = 0
    STANDARD = 1
    BACKGROUND = 2

    @property
    def api_name(self) -> str:
        """Return the name of the lane in the API and on forms."""
        return self.name.lower()


class LaneRange(NamedTuple):
    """Adjacent lanes, from the best to the worst."""

    first: Priority
    last: Priority


ALL_LANES = LaneRange(Priority.HIGH, Priority.BACKGROUND)


class Channel(models.TextChoices):
    """How a job chooses its build (docs/reference/api.md#builds-and-channels)."""

    # The newest build from before today (UTC).
    NIGHTLY = "nightly"
    # The first build since Monday, else the newest from before.
    WEEKLY = "weekly"
    # The newest build.
    LATEST = "latest"


class MultistageReason(models.TextChoices):
    """Why a job ran in stages or in a single pass (docs/reference/api.md#stages)."""

    # It ran in stages.
    ELIGIBLE = "eligible_profileset_only"
    # Its owner did not request stages.
    DISABLED = "disabled_by_option"
    # The profile has one actor and nothing to compare.
    NO_VARIANTS = "no_variants_in_input"
    # No profileset changes anything.
    NO_CANDIDATES = "no_profileset_candidates"
    # Too few profilesets make a change for stages to save time.
    TOO_FEW_CANDIDATES = "below_min_candidates"
    # The profile has copies of the actor, which stages cannot drop.
    COPIES_ONLY = "unsupported_copy_set_only"
    # The profile has both profilesets and copies of the actor.
    MIXED_WITH_COPIES = "unsupported_mixed_profileset_copy_set"
    # The profile has several actors.
    SEVERAL_ACTORS = "unsupported_multi_actor"
    # An option in the profile prevents comparing the results of stages.
    STAGE_SENSITIVE = "unsupported_stage_sensitive_directive"


class StageLabel(models.TextChoices):
    """The stages of a multistage job."""

    # The first of several, with a large target error, or the only stage.
    INITIAL = "initial"
    # Any stage between the first and the last.
    INTERMEDIATE = "intermediate"
    # The last of several, with the job's own target error.
    FINAL = "final"


class VerdictKind(models.TextChoices):
    """What a result says about its variants or actors (docs/reference/api.md#verdict)."""

    # One variant is clearly better than the baseline and than all others.
    BEST = "best"
    # One variant is clearly better than the baseline, but not than all others.
    UPGRADE = "upgrade"
    # Several variants are clearly better than the baseline. The best of them cannot be told apart.
    TIED = "tied"
    # No variant is clearly better than the baseline.
    NONE_BETTER = "none_better"
    # The profile has one actor and nothing to compare.
    NO_VARIANTS = "no_variants"
    # One actor is clearly better than all others.
    BEST_ACTOR = "best_actor"
    # The best actors cannot be told apart.
    TIED_ACTORS = "tied_actors"
    # The figures are not good enough for a verdict.
    UNKNOWN = "unknown"
