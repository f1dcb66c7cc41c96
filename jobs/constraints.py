"""Database constraints of builds and jobs."""

from django.db.models import BaseConstraint, CheckConstraint, F, Q, UniqueConstraint

from jobs.enums import ACTIVE, CLAIMED, TERMINAL, Priority, Status

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
