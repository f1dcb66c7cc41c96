"""Database constraints of builds, jobs and shards."""

from django.db.models import BaseConstraint, CheckConstraint, F, Q, UniqueConstraint

from jobs.enums import ACTIVE, CLAIMED, TERMINAL, Priority, ShardStatus, Status

BUILD_CONSTRAINTS: list[BaseConstraint] = [
    UniqueConstraint(fields=["git_branch", "commit"], name="build_commit_unique"),
    CheckConstraint(
        condition=Q(broken_reason="") | Q(withdrawn_at__isnull=False), name="build_broken_is_withdrawn"
    ),
]
JOB_CONSTRAINTS: list[BaseConstraint] = [
    CheckConstraint(condition=Q(status__in=Status.values), name="job_status_known"),
    CheckConstraint(condition=Q(priority__in=Priority.values), name="job_priority_known"),
    CheckConstraint(condition=Q(json_version__in=[2, 3]), name="job_json_version_known"),
    # Not `unique=True`, which would add an index for LIKE
    UniqueConstraint(fields=["share_token"], name="jobs_job_share_token_key"),
    # Starting and running jobs have a worker and a lease; all others have neither.
    CheckConstraint(
        condition=(Q(status__in=CLAIMED) & Q(lease_expires_at__isnull=False) & ~Q(worker=""))
        | (~Q(status__in=CLAIMED) & Q(lease_expires_at=None, worker="")),
        name="job_lease_iff_held",
    ),
    CheckConstraint(condition=~Q(status__in=CLAIMED) | Q(attempt__gte=1), name="job_held_was_claimed"),
    CheckConstraint(
        condition=(Q(status__in=TERMINAL) & Q(completed_at__isnull=False, credits_consumed__isnull=False))
        | (~Q(status__in=TERMINAL) & Q(completed_at=None, credits_consumed=None)),
        name="job_ended_iff_terminal",
    ),
    CheckConstraint(
        condition=Q(status=Status.COMPLETED, error_code=None, summary__isnull=False)
        | (Q(status__in=[s for s in TERMINAL if s != Status.COMPLETED]) & Q(error_code__isnull=False))
        | Q(status__in=ACTIVE, error_code=None, summary__isnull=True),
        name="job_error_iff_unsuccessful",
    ),
    # No job is billed more than its ceiling and its fee.
    CheckConstraint(
        condition=Q(credits_consumed=None)
        | Q(credits_consumed__lte=F("ceiling_credits") + F("priority_fee_credits")),
        name="job_billed_within_ceiling",
    ),
]
SHARDED_STAGE_CONSTRAINTS: list[BaseConstraint] = [
    UniqueConstraint(fields=["job", "attempt", "stage"], name="sharded_stage_unique"),
    # The shards never use more time than the job's hold pays for.
    CheckConstraint(condition=Q(allotted_ms__lte=F("funded_ms")), name="sharded_stage_is_funded"),
]
RUNNING = Q(status=ShardStatus.RUNNING)
SHARD_CONSTRAINTS: list[BaseConstraint] = [
    UniqueConstraint(fields=["stage", "number"], name="shard_unique"),
    UniqueConstraint(fields=["stage", "seat"], condition=RUNNING, name="shard_seat_unique"),
    CheckConstraint(condition=Q(status__in=ShardStatus.values), name="shard_status_known"),
    # Running shards have a seat, a worker, a lease and an allowance; all others have none.
    CheckConstraint(
        condition=(
            RUNNING & Q(seat__isnull=False, lease_expires_at__isnull=False, allowance_ms__gt=0) & ~Q(worker="")
        )
        | (~RUNNING & Q(seat=None, lease_expires_at=None, allowance_ms=0, worker="")),
        name="shard_seated_iff_running",
    ),
    CheckConstraint(
        condition=Q(status__in=[ShardStatus.WAITING, ShardStatus.RUNNING], result=None, billed_ms=0)
        | Q(status__in=[ShardStatus.DONE, ShardStatus.STOPPED, ShardStatus.FAILED], result__isnull=False),
        name="shard_result_iff_ended",
    ),
]
