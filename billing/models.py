"""Plans and the accounts that are on them."""

from django.db import models
from django.db.models import F, Q


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
    submissions_per_minute = models.PositiveIntegerField(default=1_200)
    # For each key of the account.
    reads_per_minute = models.PositiveIntegerField(default=6_000)
    # Which workers the plan's jobs run on, as callers are told it.
    pool = models.CharField(max_length=32, default="shared")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(credits_per_second__gt=0), name="plan_rate_positive"),
            models.CheckConstraint(condition=Q(vcpu_per_job__gt=0), name="plan_vcpu_positive"),
            models.CheckConstraint(condition=Q(max_credits_per_job__gt=0), name="plan_credits_positive"),
            models.CheckConstraint(
                condition=Q(submissions_per_minute__gt=0, reads_per_minute__gt=0), name="plan_rate_limits_positive"
            ),
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
