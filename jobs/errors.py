"""Why a request about jobs is refused. `jobs/api/errors.py` gives each its HTTP status, code and message."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from jobs.enums import PublicStatus
from jobs.profiles.policy import Refusal


class JobsError(Exception):
    """A refused request; nothing was stored or changed."""


@dataclass(eq=False, kw_only=True)
class ProfileRejected(JobsError):
    """The policy refuses `count` directives of the profile; `refusals` has the first of them."""

    refusals: Sequence[Refusal]
    count: int


@dataclass(eq=False, kw_only=True)
class ProfileTooComplex(JobsError):
    """The profile exceeds a limit on its size; `excess` names what it has too many of."""

    excess: str


class NothingToSimulate(JobsError):
    """The profile starts no character."""


@dataclass(eq=False, kw_only=True)
class VariantLimitExceeded(JobsError):
    """The profile has more variants than the plan allows."""

    variants: int
    limit: int


@dataclass(eq=False, kw_only=True)
class PinNotAllowed(JobsError):
    """The account's plan does not allow pinning a build."""

    build_id: UUID


@dataclass(eq=False, kw_only=True)
class PinUnavailable(JobsError):
    """The pinned build does not exist, is withdrawn, or is older than `max_age_days`."""

    build_id: UUID
    git_branch: str
    max_age_days: int


@dataclass(eq=False, kw_only=True)
class LimitsExceeded(JobsError):
    """The request asks for more than the plan allows; `limits` maps fields of the submission to their limits."""

    limits: dict[str, int]


class WebhookNotEnabled(JobsError):
    """The request asks for webhook events, and its client has no enabled webhook."""


class AccountSuspended(JobsError):
    """The account is suspended and cannot submit jobs."""


@dataclass(eq=False, kw_only=True)
class ActiveJobLimitReached(JobsError):
    """The account has as many unfinished jobs as its plan allows."""

    active: int
    limit: int


@dataclass(eq=False, kw_only=True)
class CreditsMissing(JobsError):
    """The account cannot reserve the credits for a job.

    All values of the job are without the fee, except `required_credits`. `fee_credits` is None unless the job has
    high priority.
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
    """Redis does not respond, so game credentials can be neither stored nor read."""


@dataclass(eq=False, kw_only=True)
class JobAlreadyEnded(JobsError):
    """The job has ended, so it cannot be cancelled."""

    job_id: int
    status: PublicStatus


class NotFound(JobsError):
    """There is no such job, artifact or build, or it belongs to another account."""


class ArtifactRemoved(JobsError):
    """The artifact was removed at the end of the retention period."""
