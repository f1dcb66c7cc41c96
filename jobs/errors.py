"""Errors of requests about jobs, and of attempts.

`jobs/api/errors.py` defines the HTTP status, code and message of each error of a request.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from jobs.enums import PublicStatus
from simc.profiles.policy import Refusal
from simservice import shutdown


class GivesUp(Exception):
    """Ends an attempt, or the try of a shard, but not its job.

    With a `requeue_reason`, it returns to the queue at once. Otherwise, the attempt's lease expires, and the try
    counts as a loss. If it `keeps_deadline`, the job ends at its queue deadline even if no machine can run it.
    """

    requeue_reason: str | None = None
    keeps_deadline = False


class WorkerStops(GivesUp):
    """The worker shuts down, or its machine is drained."""

    @property
    def requeue_reason(self) -> str:  # type: ignore[override]
        return "the worker was shut down" if shutdown.stop.is_requested else "an operator drained the machine"


class JobPaused(GivesUp):
    """The owner of the job asked to pause it."""

    requeue_reason = "its owner paused the job"


class JobsError(Exception):
    """A rejected request. Nothing was stored or changed."""


@dataclass(eq=False, kw_only=True)
class ProfileRejected(JobsError):
    """The policy rejects `count` directives of the profile; `refusals` has the first ones."""

    refusals: Sequence[Refusal]
    count: int


@dataclass(eq=False, kw_only=True)
class ProfileTooComplex(JobsError):
    """The profile exceeds a limit on its size, which `excess` names."""

    excess: str


@dataclass(eq=False, kw_only=True)
class NothingToSimulate(JobsError):
    """The profile does not define a character, perhaps because the text has lost its line breaks."""

    lost_line_breaks: bool


@dataclass(eq=False, kw_only=True)
class VariantLimitExceeded(JobsError):
    """The profile has more variants than the plan allows."""

    variants: int
    limit: int


@dataclass(eq=False, kw_only=True)
class PinNotAllowed(JobsError):
    """The plan does not allow pinned builds."""

    build_id: UUID


@dataclass(eq=False, kw_only=True)
class PinUnavailable(JobsError):
    """The pinned build does not exist, is withdrawn, or is older than `max_age_days`."""

    build_id: UUID
    git_branch: str
    max_age_days: int


@dataclass(eq=False, kw_only=True)
class LimitsExceeded(JobsError):
    """The request exceeds limits of the plan; `limits` maps fields of the submission to their limits."""

    limits: dict[str, int]


@dataclass(eq=False, kw_only=True)
class CapTooSmall(JobsError):
    """The cap in credits does not pay for one second, which costs `minimum`."""

    minimum: int


class WebhookNotEnabled(JobsError):
    """The request asks for webhook events, but its client has no enabled webhook."""


class AccountSuspended(JobsError):
    """The account is suspended and cannot submit or resume jobs."""


@dataclass(eq=False, kw_only=True)
class ActiveJobLimitReached(JobsError):
    """The account has as many unfinished jobs as its plan allows."""

    active: int
    limit: int


@dataclass(eq=False, kw_only=True)
class StorageLimitReached(JobsError):
    """The account's files have as many bytes as its plan allows."""

    stored_bytes: int
    limit: int


@dataclass(eq=False, kw_only=True)
class CreditsMissing(JobsError):
    """The account does not have enough credits for the job.

    Only `required_credits` includes the fee. `fee_credits` is None unless the job has high priority.
    """

    required_credits: int
    ceiling_credits: int
    affordable_credits: int
    ceiling_seconds: int
    affordable_seconds: int
    fee_credits: int | None


@dataclass(eq=False, kw_only=True)
class IdempotencyKeyReused(JobsError):
    """The idempotency key belongs to a different request, which created job `job_id`."""

    job_id: int


class QueueFull(JobsError):
    """The queue is at its maximum length."""


class CredentialStoreUnavailable(JobsError):
    """Redis does not respond, so game credentials cannot be stored or read."""


@dataclass(eq=False, kw_only=True)
class JobAlreadyEnded(JobsError):
    """The job has ended, so it cannot be cancelled."""

    job_id: int
    status: PublicStatus


@dataclass(eq=False, kw_only=True)
class JobNotPausable(JobsError):
    """The job has ended or is being cancelled, so it cannot be paused or resumed."""

    job_id: int
    status: PublicStatus


@dataclass(eq=False, kw_only=True)
class PauseLimitReached(JobsError):
    """The job has reached the maximum number of pauses."""

    limit: int


class NotFound(JobsError):
    """The job, artifact or build does not exist, or belongs to another account."""


class ProfilePrivate(JobsError):
    """The share page of the job does not show its profile: the job has not run, or had game credentials."""


class ArtifactRemoved(JobsError):
    """The artifact was removed at the end of the retention period."""
