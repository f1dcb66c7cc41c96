"""Plans, accounts and the ledger of credits, which only `billing/ledger.py` and `billing/ledger.sql` write."""

from collections.abc import Iterator
from functools import reduce
from operator import or_

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from billing import prices

# Keeps sums within PostgreSQL's bigint and the numbers that JSON parsers read exactly.
MAX_AMOUNT = 10**12
# More would only split jobs into shards that are too short.
MAX_PARALLEL_SLOTS = 256
MAX_RETENTION_DAYS = 3_650


class Pool(models.TextChoices):
    """Pool of workers for a plan's jobs, as shown in the API."""

    # Workers shared by all accounts.
    STANDARD = "standard"
    # Workers kept ready, so that jobs start without delay.
    WARM = "warm"
    # Workers reserved for one account.
    DEDICATED = "dedicated"


class GrantReason(models.TextChoices):
    """Reason for a grant (`docs/reference/api.md#credits`). Operators use those that begin with `grant_`."""

    # Credits for developing against the API.
    GRANT_DEVELOPER_ALLOWANCE = "grant_developer_allowance", "Developer allowance"
    # Credits for testers of a beta version.
    GRANT_BETA = "grant_beta", "Beta"
    # A promotion by an operator.
    GRANT_PROMO = "grant_promo", "Promotion"
    # Help for a new customer, granted by an operator.
    GRANT_ONBOARDING = "grant_onboarding", "Onboarding"
    # Credits for a new account.
    ONBOARDING = "onboarding", "Welcome credits"
    # The monthly credits of the plan.
    ALLOWANCE = "allowance", "Monthly allowance"
    # A promotion by the service.
    PROMO = "promo", "Automatic promotion"


def title_of_grant(reason: str, note: str) -> str:
    """Return the display name of a grant: the operator's note, or the label of the reason."""
    return note or GrantReason(reason).label


# Without them, no job could run.
POSITIVE_LIMITS = (
    "credits_per_second",
    "vcpu_per_job",
    "max_credits_per_job",
    "max_queue_seconds",
    "default_queue_seconds",
    "submissions_per_minute",
    "submission_bytes_per_minute",
    "reads_per_minute",
    # Zero would refuse every submission; an account is suspended instead.
    "max_active_jobs",
    "max_stored_bytes",
)


class Plan(models.Model):
    """Limits and prices of an account. Times are in seconds, prices in credits."""

    name = models.CharField(max_length=64, unique=True)
    credits_per_second = models.PositiveIntegerField(default=32)
    vcpu_per_job = models.PositiveSmallIntegerField(default=2)
    max_active_jobs = models.PositiveIntegerField(default=200)
    max_credits_per_job = models.PositiveIntegerField(default=57_600)
    max_variants = models.PositiveIntegerField(default=10_000)
    # Simulation slots that one job with many profilesets may use at a time.
    max_parallel_slots = models.PositiveSmallIntegerField(default=1, db_default=1)
    allows_build_pin = models.BooleanField(default=False)
    max_queue_seconds = models.PositiveIntegerField(default=86_400)
    default_queue_seconds = models.PositiveIntegerField(default=1_800)
    high_priority_fee_credits = models.PositiveIntegerField(default=320)
    # Granted at the start of each month; the grant expires at the end of the month.
    monthly_credits = models.PositiveBigIntegerField(default=0)
    submissions_per_minute = models.PositiveIntegerField(default=1_200)
    # Bytes in the bodies of submissions, including rejected ones.
    submission_bytes_per_minute = models.PositiveBigIntegerField(default=64 * 1024 * 1024)
    # Per API key.
    reads_per_minute = models.PositiveIntegerField(default=6_000)
    pool = models.CharField(max_length=9, choices=Pool, default=Pool.STANDARD)
    # Days for which results and inputs of new jobs are kept; null for the setting RETENTION_DAYS.
    retention_days = models.PositiveSmallIntegerField(null=True, blank=True)
    # Bytes of artifacts that the account can store before its submissions are refused; null for no limit.
    max_stored_bytes = models.PositiveBigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(credits_per_second__gt=0), name="plan_rate_positive"),
            models.CheckConstraint(condition=Q(vcpu_per_job__gt=0), name="plan_vcpu_positive"),
            models.CheckConstraint(condition=Q(max_credits_per_job__gt=0), name="plan_credits_positive"),
            models.CheckConstraint(
                condition=Q(max_parallel_slots__range=(1, MAX_PARALLEL_SLOTS)), name="plan_slots_in_range"
            ),
            models.CheckConstraint(condition=Q(monthly_credits__lte=MAX_AMOUNT), name="plan_allowance_bounded"),
            models.CheckConstraint(
                condition=Q(submissions_per_minute__gt=0, reads_per_minute__gt=0), name="plan_rate_limits_positive"
            ),
            models.CheckConstraint(condition=Q(submission_bytes_per_minute__gt=0), name="plan_bytes_positive"),
            models.CheckConstraint(condition=Q(pool__in=Pool.values), name="plan_pool_known"),
            models.CheckConstraint(
                condition=Q(retention_days=None) | Q(retention_days__range=(1, MAX_RETENTION_DAYS)),
                name="plan_retention_in_range",
            ),
            models.CheckConstraint(
                condition=Q(default_queue_seconds__lte=F("max_queue_seconds")),
                name="plan_queue_default_le_max",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Raise ValidationError with every problem of the prices and limits, by field."""
        if problems := dict(self._problems()):
            raise ValidationError(problems)

    def _problems(self) -> Iterator[tuple[str, str]]:
        """Yield the names of fields, each with what is wrong with its value."""
        yield from ((name, "Enter a number above 0.") for name in POSITIVE_LIMITS if getattr(self, name) == 0)
        if 0 < self.max_credits_per_job < self.credits_per_second:
            yield "max_credits_per_job", "This does not pay for a second: enter at least the credits per second."
        if self.default_queue_seconds > self.max_queue_seconds:
            yield "default_queue_seconds", "Enter at most the longest queue timeout."
        for name, least, most in (
            ("max_parallel_slots", 1, MAX_PARALLEL_SLOTS),
            ("retention_days", 1, MAX_RETENTION_DAYS),
            ("monthly_credits", 0, MAX_AMOUNT),
        ):
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                yield name, f"Enter a number from {least:,} to {most:,}."

    @property
    def max_runtime_seconds(self) -> int:
        """Return the longest simulator time of a job, given its maximum cost."""
        return prices.seconds_for(self.max_credits_per_job, credits_per_second=self.credits_per_second)


class Account(models.Model):
    """A customer, who pays for jobs."""

    name = models.SlugField(max_length=64, unique=True)
    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="accounts")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    # A suspended account can read everything but cannot submit jobs.
    suspended_at = models.DateTimeField(null=True, blank=True)
    # Whether the share links of its jobs show their profiles and logs.
    shares_inputs = models.BooleanField(default=True, db_default=True)

    def __str__(self) -> str:
        return self.name


class Balance(models.Model):
    """Balances of an account: the sums of its entries. Every change of credits locks this row first.

    Separate from Account, so that settling a job does not wait for a submission or a form that locks the account.
    """

    account = models.OneToOneField(
        Account, primary_key=True, on_delete=models.PROTECT, related_name="balance", editable=False
    )
    purchased = models.PositiveBigIntegerField(default=0)
    # The sum of the account's open holds.
    reserved = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.purchased} purchased, {self.reserved} reserved"


class Grant(models.Model):
    """Credits granted to an account. `note` is written by an operator; it is empty for automatic grants."""

    id = models.BigIntegerField(primary_key=True, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="grants", db_index=False)
    reason = models.CharField(max_length=25, choices=GrantReason)
    note = models.CharField(max_length=200, blank=True)
    original = models.PositiveBigIntegerField()
    remaining = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField()
    # Null if it never expires. Expired credits cannot be spent, even before they are booked as expired.
    expires_at = models.DateTimeField(null=True, blank=True)
    # First day of the month of a monthly allowance; null for other grants.
    allowance_month = models.DateField(null=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["account", "allowance_month"], name="grant_one_allowance_a_month"),
            models.CheckConstraint(condition=Q(reason__in=GrantReason.values), name="grant_reason_known"),
            models.CheckConstraint(condition=Q(remaining__lte=F("original")), name="grant_remaining_le_original"),
            models.CheckConstraint(
                condition=Q(expires_at=None) | Q(expires_at__gt=F("created_at")),
                name="grant_expires_after_creation",
            ),
        ]
        indexes = [
            # Grants in spending order.
            models.Index(
                fields=["account", "expires_at", "id"], condition=Q(remaining__gt=0), name="grant_spendable"
            ),
            # Expired grants that are not booked yet.
            models.Index(
                fields=["expires_at"], condition=Q(remaining__gt=0, expires_at__isnull=False), name="grant_expiring"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.title} ({self.remaining} of {self.original})"

    @property
    def title(self) -> str:
        """Return the display name: the note, or the label of the reason."""
        return title_of_grant(self.reason, self.note)


class Hold(models.Model):
    """Credits reserved for one job. A trigger ensures that a hold is resolved only once.

    `job_id` is not a foreign key, because `billing` must not depend on `jobs`.
    """

    job_id = models.BigIntegerField(primary_key=True, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="holds", db_index=False)
    credits = models.PositiveBigIntegerField()
    spent = models.PositiveBigIntegerField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    resolved_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(credits__gt=0), name="hold_positive"),
            models.CheckConstraint(condition=Q(spent=None) | Q(spent__lte=F("credits")), name="hold_spent_le_held"),
            models.CheckConstraint(
                condition=Q(spent=None, resolved_at=None) | Q(spent__isnull=False, resolved_at__isnull=False),
                name="hold_spent_iff_resolved",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.credits} for job {self.job_id}"


class Pocket(models.TextChoices):
    """State of credits in the ledger. Each entry moves credits from one pocket to another."""

    # The other side of grants, purchases and corrections.
    OUTSIDE = "outside"
    # Purchased credits that are available.
    PURCHASED = "purchased"
    # Granted credits that are available until the grant expires.
    GRANT = "grant"
    # Reserved for a job.
    HELD = "held"
    # Charged for a job.
    SPENT = "spent"
    # Lost because their grant expired.
    EXPIRED = "expired"


ALLOWED_MOVES = (
    (Pocket.OUTSIDE, Pocket.PURCHASED),
    (Pocket.OUTSIDE, Pocket.GRANT),
    (Pocket.PURCHASED, Pocket.OUTSIDE),
    (Pocket.GRANT, Pocket.OUTSIDE),
    (Pocket.PURCHASED, Pocket.HELD),
    (Pocket.GRANT, Pocket.HELD),
    (Pocket.HELD, Pocket.PURCHASED),
    (Pocket.HELD, Pocket.GRANT),
    (Pocket.HELD, Pocket.SPENT),
    (Pocket.HELD, Pocket.EXPIRED),
    (Pocket.GRANT, Pocket.EXPIRED),
)


class EntryReason(models.TextChoices):
    """Why credits returned from a job's hold, unless the job ended."""

    # Its owner paused it.
    PAUSED = "paused"


class Entry(models.Model):
    """A move of credits from one pocket to another. A trigger prevents changes and deletions.

    One row contains both sides of the double entry, so entries always sum to zero. `grant` is the origin of the
    credits in every pocket; null means that they were purchased.
    """

    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="entries", db_index=False)
    at = models.DateTimeField(db_default=Now())
    source = models.CharField(max_length=9, choices=Pocket)
    target = models.CharField(max_length=9, choices=Pocket)
    credits = models.PositiveBigIntegerField()
    grant = models.ForeignKey(Grant, null=True, on_delete=models.PROTECT, related_name="entries", db_index=False)
    job_id = models.BigIntegerField(null=True)
    reason = models.CharField(max_length=200, blank=True)

    class Meta:
        verbose_name_plural = "entries"
        constraints = [
            models.CheckConstraint(condition=Q(credits__gt=0), name="entry_positive"),
            models.CheckConstraint(
                condition=reduce(or_, (Q(source=source, target=target) for source, target in ALLOWED_MOVES)),
                name="entry_move_known",
            ),
            models.CheckConstraint(
                condition=Q(grant__isnull=False)
                | (~Q(source=Pocket.GRANT) & ~Q(target__in=[Pocket.GRANT, Pocket.EXPIRED])),
                name="entry_of_grant_names_it",
            ),
            models.CheckConstraint(
                condition=Q(grant=None) | (~Q(source=Pocket.PURCHASED) & ~Q(target=Pocket.PURCHASED)),
                name="entry_of_purchased_names_no_grant",
            ),
            models.CheckConstraint(
                condition=(Q(source=Pocket.HELD) | Q(target=Pocket.HELD)) & Q(job_id__isnull=False)
                | ~Q(source=Pocket.HELD) & ~Q(target=Pocket.HELD) & Q(job_id=None),
                name="entry_job_iff_held",
            ),
        ]
        indexes = [
            models.Index(fields=["job_id"], condition=Q(job_id__isnull=False), name="entry_by_job"),
            models.Index(fields=["account", "-id"], name="entry_by_account"),
            # The entries that change the balance, except charges for jobs: `billing/statement.py`
            models.Index(
                fields=["account", "-id"],
                condition=Q(job_id=None) | Q(target=Pocket.EXPIRED),
                name="entry_besides_charges",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.credits}: {self.source} → {self.target}"
