"""Plans, the accounts that are on them, and the book of their credits. Only `billing/ledger.py` writes the book."""

from functools import reduce
from operator import or_

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

# More than anybody can mean; it keeps sums far inside PostgreSQL's bigint and JSON's exact numbers.
MOST_CREDITS = 10**12


class Pool(models.TextChoices):
    """The workers that run a plan's jobs, as shown to callers."""

    STANDARD = "standard"
    WARM = "warm"
    DEDICATED = "dedicated"


class GrantReason(models.TextChoices):
    """Why credits are given (contract, section 4): `grant_…` by an operator, the others by the service."""

    GRANT_DEVELOPER_ALLOWANCE = "grant_developer_allowance", "Developer allowance"
    GRANT_BETA = "grant_beta", "Beta"
    GRANT_PROMO = "grant_promo", "Promotion"
    GRANT_ONBOARDING = "grant_onboarding", "Onboarding"
    ONBOARDING = "onboarding", "Welcome credits"
    ALLOWANCE = "allowance", "Monthly allowance"
    PROMO = "promo", "Automatic promotion"


def title_of_grant(reason: str, note: str) -> str:
    """Return a grant's name for people: the operator's note, else the reason."""
    return note or GrantReason(reason).label


class Plan(models.Model):
    """What an account may do and what it pays. Times are in seconds, prices in credits."""

    name = models.CharField(max_length=64, unique=True)
    credits_per_second = models.PositiveIntegerField(default=32)
    vcpu_per_job = models.PositiveSmallIntegerField(default=2)
    max_active_jobs = models.PositiveIntegerField(default=200)
    max_credits_per_job = models.PositiveIntegerField(default=57_600)
    max_variants = models.PositiveIntegerField(default=10_000)
    allows_build_pin = models.BooleanField(default=False)
    max_queue_seconds = models.PositiveIntegerField(default=86_400)
    default_queue_seconds = models.PositiveIntegerField(default=1_800)
    high_priority_fee_credits = models.PositiveIntegerField(default=320)
    # Granted at the start of each month, and gone at its end.
    monthly_credits = models.PositiveBigIntegerField(default=0)
    submissions_per_minute = models.PositiveIntegerField(default=1_200)
    # Bytes of request bodies that submit jobs, refused ones included.
    submission_bytes_per_minute = models.PositiveBigIntegerField(default=64 * 1024 * 1024)
    # For each key of the account.
    reads_per_minute = models.PositiveIntegerField(default=6_000)
    pool = models.CharField(max_length=9, choices=Pool, default=Pool.STANDARD)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(credits_per_second__gt=0), name="plan_rate_positive"),
            models.CheckConstraint(condition=Q(vcpu_per_job__gt=0), name="plan_vcpu_positive"),
            models.CheckConstraint(condition=Q(max_credits_per_job__gt=0), name="plan_credits_positive"),
            models.CheckConstraint(condition=Q(monthly_credits__lte=MOST_CREDITS), name="plan_allowance_bounded"),
            models.CheckConstraint(
                condition=Q(submissions_per_minute__gt=0, reads_per_minute__gt=0), name="plan_rate_limits_positive"
            ),
            models.CheckConstraint(condition=Q(submission_bytes_per_minute__gt=0), name="plan_bytes_positive"),
            models.CheckConstraint(condition=Q(pool__in=Pool.values), name="plan_pool_known"),
            models.CheckConstraint(
                condition=Q(default_queue_seconds__lte=F("max_queue_seconds")),
                name="plan_queue_default_le_max",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def max_runtime_seconds(self) -> int:
        """The longest simulator time that a job's credits can buy."""
        return self.max_credits_per_job // self.credits_per_second


class Account(models.Model):
    """A customer: the one who pays."""

    name = models.SlugField(max_length=64, unique=True)
    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="accounts")
    created_at = models.DateTimeField(auto_now_add=True)
    # A suspended account reads as before and submits nothing.
    suspended_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class Balance(models.Model):
    """The customer's row: what the entries add up to, and the lock that every change of credits takes first.

    It is not part of Account, so that settling a job waits neither for a submission that is being checked nor
    for a form that saves the account.
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
    """Credits given to an account for a reason, until a time or for good.

    `note` is the operator's own text; empty for automatic grants.
    """

    id = models.BigIntegerField(primary_key=True, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="grants", db_index=False)
    reason = models.CharField(max_length=25, choices=GrantReason)
    note = models.CharField(max_length=200, blank=True)
    original = models.PositiveBigIntegerField()
    remaining = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField()
    # Null: never. What expired can no longer be spent, whether or not the sweep has booked it yet.
    expires_at = models.DateTimeField(null=True, blank=True)
    # The first day of the month that this is the plan's allowance for; null for every other grant.
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
            # What can be spent, in the order in which it is.
            models.Index(
                fields=["account", "expires_at", "id"], condition=Q(remaining__gt=0), name="grant_spendable"
            ),
            # What the expiry sweep looks for.
            models.Index(
                fields=["expires_at"], condition=Q(remaining__gt=0, expires_at__isnull=False), name="grant_expiring"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.title} ({self.remaining} of {self.original})"

    @property
    def title(self) -> str:
        """Return the grant's name for people."""
        return title_of_grant(self.reason, self.note)


class Hold(models.Model):
    """Credits set aside for one job. Resolved once (a trigger sees to it); which credits, its entries tell.

    The job is named without a foreign key, because jobs know of billing and not the other way round.
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
        indexes = [models.Index(fields=["account"], condition=Q(resolved_at=None), name="hold_open")]

    def __str__(self) -> str:
        return f"{self.credits} for job {self.job_id}"


class Pocket(models.TextChoices):
    """Where a customer's credits can be. `outside` is where they come from and where corrections return them."""

    OUTSIDE = "outside"
    PURCHASED = "purchased"
    GRANT = "grant"
    HELD = "held"
    SPENT = "spent"
    EXPIRED = "expired"


MOVES = (
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


class Entry(models.Model):
    """One move of credits from one pocket to another: written once, never changed (a trigger sees to it).

    Both sides of the double entry are in one row, so that every transaction sums to zero by its form. `grant`
    is where the credits came from, in every pocket they pass; without one they are purchased credits.
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
                condition=reduce(or_, (Q(source=source, target=target) for source, target in MOVES)),
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
        ]

    def __str__(self) -> str:
        return f"{self.credits}: {self.source} → {self.target}"
