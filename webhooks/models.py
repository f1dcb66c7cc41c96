"""Where a client's events go, the events themselves, and every attempt to deliver one."""

import secrets

from django.db import models
from django.db.models import Q

from clients.models import Client

MAX_URL = 2048


def event_name() -> str:
    """Return a new event id (contract, section 2)."""
    return f"evt_{secrets.token_hex(16)}"


def delivery_name() -> str:
    """Return a new delivery id (contract, section 2)."""
    return f"dlv_{secrets.token_hex(16)}"


class Endpoint(models.Model):
    """A client's webhook. It exists from the first time it was configured; only an enabled one has a secret.

    The table has a constraint that Django cannot express: the client is no account's built-in one.
    """

    class Disabled(models.TextChoices):
        """Why an endpoint is disabled; empty while it is enabled."""

        BY_OWNER = "owner"
        FAILING = "failing"

    client = models.OneToOneField(Client, primary_key=True, on_delete=models.PROTECT, related_name="webhook")
    url = models.CharField(max_length=MAX_URL)
    # Encrypted; during a rotation there are two, and deliveries carry both signatures.
    secret = models.TextField(blank=True)
    old_secret = models.TextField(blank=True)
    old_secret_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    disabled_at = models.DateTimeField(null=True)
    disabled_for = models.CharField(max_length=8, choices=Disabled, blank=True)
    # When the account's owners are to be told that it was disabled, null when there is nothing to tell.
    tell_owners_at = models.DateTimeField(null=True)
    # The first failure since the last success.
    failing_since = models.DateTimeField(null=True)
    # Up to when the deliveries made so far use up the client's throughput.
    busy_until = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=(Q(disabled_at=None, disabled_for="") & ~Q(secret=""))
                | (Q(disabled_at__isnull=False, secret="", old_secret="") & ~Q(disabled_for="")),
                name="endpoint_secret_iff_enabled",
            ),
            models.CheckConstraint(
                condition=Q(old_secret="", old_secret_until=None)
                | (~Q(old_secret="") & Q(old_secret_until__isnull=False)),
                name="endpoint_old_secret_has_an_end",
            ),
        ]
        indexes = [
            models.Index(
                fields=["tell_owners_at"], condition=Q(tell_owners_at__isnull=False), name="endpoint_untold"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.client_id}: {self.url}"

    @property
    def is_enabled(self) -> bool:
        return self.disabled_at is None


class Event(models.Model):
    """Something a client is told of. The body is kept as the very bytes that are signed and sent."""

    class State(models.TextChoices):
        WAITING = "waiting"
        SENDING = "sending"
        DELIVERED = "delivered"
        FAILED = "failed"

    class Failure(models.TextChoices):
        """Why an event was given up; empty while it was not."""

        REJECTED = "rejected"
        EXHAUSTED = "exhausted"
        DISABLED = "disabled"

    name = models.CharField(max_length=36, default=event_name)
    client = models.ForeignKey(Client, on_delete=models.PROTECT, related_name="+", db_index=False)
    # Null for a test event. No foreign key: jobs know of webhooks, and not the other way round.
    job_id = models.BigIntegerField(null=True, unique=True)
    body = models.BinaryField()
    created_at = models.DateTimeField()
    state = models.CharField(max_length=9, choices=State, default=State.WAITING)
    failure = models.CharField(max_length=9, choices=Failure, blank=True)
    # Failed attempts since the event was created or sent again by hand: its place in the schedule.
    failures = models.PositiveSmallIntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True)
    # While it is being sent: when its worker is taken for dead.
    lease_expires_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name"], name="event_name_unique"),
            models.CheckConstraint(
                condition=Q(state="waiting", next_attempt_at__isnull=False, lease_expires_at=None, ended_at=None)
                | Q(state="sending", next_attempt_at=None, lease_expires_at__isnull=False, ended_at=None)
                | Q(
                    state__in=["delivered", "failed"],
                    next_attempt_at=None,
                    lease_expires_at=None,
                    ended_at__isnull=False,
                ),
                name="event_times_fit_state",
            ),
            models.CheckConstraint(
                condition=(Q(state="failed") & ~Q(failure="")) | (~Q(state="failed") & Q(failure="")),
                name="event_failure_iff_failed",
            ),
        ]
        indexes = [
            # The claim: a client's due events.
            models.Index(
                fields=["client", "next_attempt_at"], condition=Q(state="waiting"), name="event_waiting_by_client"
            ),
            # Whether anything is due at all, and since when.
            models.Index(fields=["next_attempt_at"], condition=Q(state="waiting"), name="event_waiting"),
            # Events in flight are few: those of each client, and those whose worker died.
            models.Index(fields=["client"], condition=Q(state="sending"), name="event_sending"),
            # A client's events, newest first.
            models.Index(fields=["client", "-id"], name="event_by_client"),
            # The failed ones of a period.
            models.Index(fields=["client", "created_at"], condition=Q(state="failed"), name="event_failed"),
            # Retention.
            models.Index(fields=["created_at"], condition=Q(state__in=["delivered", "failed"]), name="event_ended"),
        ]

    def __str__(self) -> str:
        return self.name


class Delivery(models.Model):
    """One attempt to deliver an event, written before the request is made."""

    class Outcome(models.TextChoices):
        """How an attempt ended."""

        SENDING = "sending"
        DELIVERED = "delivered"
        # To be tried again, unless it was the last attempt.
        FAILED = "failed"
        # An answer that trying again would not change.
        REJECTED = "rejected"
        # Its worker died or stood still; nobody knows whether the request was made.
        LOST = "lost"

    class Problem(models.TextChoices):
        """What kept an attempt from being answered."""

        ADDRESS = "address"
        DNS = "dns"
        CONNECTION = "connection"
        TLS = "tls"
        TIMEOUT = "timeout"
        PROTOCOL = "protocol"
        INTERNAL = "internal"

    name = models.CharField(max_length=36, default=delivery_name)
    event = models.ForeignKey(Event, on_delete=models.CASCADE, related_name="deliveries")
    outcome = models.CharField(max_length=9, choices=Outcome, default=Outcome.SENDING)
    started_at = models.DateTimeField()
    duration_ms = models.PositiveIntegerField(null=True)
    # The address that was connected to; empty when none was.
    address = models.CharField(max_length=64, blank=True)
    status = models.PositiveSmallIntegerField(null=True)
    problem = models.CharField(max_length=10, choices=Problem, blank=True)
    # The problem in a sentence.
    detail = models.CharField(max_length=300, blank=True)
    # The beginning of the answer's body, at most 2 KiB.
    excerpt = models.TextField(blank=True)

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [models.UniqueConstraint(fields=["name"], name="delivery_name_unique")]
        indexes = [
            # What Prometheus is told of the last minutes.
            models.Index(fields=["started_at"], name="delivery_by_start"),
        ]

    def __str__(self) -> str:
        return self.name
