"""Webhook endpoints, events and the attempts to deliver them."""

import secrets
from typing import Final

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from clients.models import Client
from simservice.network.addresses import MAX_URL

# The kind of an event that is not about a job
LOW_CREDITS: Final = "account.credits_low"


def event_name() -> str:
    """Return a new event id (`docs/reference/api.md#identifiers`)."""
    return f"evt_{secrets.token_hex(16)}"


def delivery_name() -> str:
    """Return a new delivery id (`docs/reference/api.md#identifiers`)."""
    return f"dlv_{secrets.token_hex(16)}"


class Endpoint(models.Model):
    """A client's webhook, enabled or disabled. Only an enabled one has a secret.

    The database also refuses an endpoint for a default client (migration 0002).
    """

    class Disabled(models.TextChoices):
        """Why an endpoint is disabled; empty while it is enabled."""

        # A member of the account disabled it.
        BY_OWNER = "owner"
        # Every delivery had failed for `retries.DISABLED_AFTER`.
        FAILING = "failing"

    client = models.OneToOneField(Client, primary_key=True, on_delete=models.PROTECT, related_name="webhook")
    url = models.CharField(max_length=MAX_URL)
    # Encrypted. After a rotation with an overlap, deliveries are signed with both secrets.
    secret = models.TextField(blank=True)
    old_secret = models.TextField(blank=True)
    old_secret_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    disabled_at = models.DateTimeField(null=True)
    disabled_for = models.CharField(max_length=8, choices=Disabled, blank=True)
    # When to notify the account's owners that it was disabled; null if there is nothing to report.
    tell_owners_at = models.DateTimeField(null=True)
    # The first failure since the last success.
    failing_since = models.DateTimeField(null=True)
    # Whether it gets an event when the account's credits drop below the owners' threshold
    reports_low_credits = models.BooleanField(default=False, db_default=False)
    # Until when past deliveries use up the client's throughput.
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
            # Enabled endpoints whose last delivery failed
            models.Index(
                fields=["failing_since"],
                condition=Q(disabled_at=None, failing_since__isnull=False),
                name="endpoint_failing",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.client_id}: {self.url}"

    @property
    def is_enabled(self) -> bool:
        return self.disabled_at is None


class Event(models.Model):
    """A notification for a client. The body is stored as the exact bytes that are signed and sent."""

    class State(models.TextChoices):
        """How far the delivery of an event is."""

        # For its first attempt or for a retry, at `next_attempt_at`.
        WAITING = "waiting"
        # A worker is making the request, until `lease_expires_at`.
        SENDING = "sending"
        # The receiver accepted it.
        DELIVERED = "delivered"
        # It is not retried; `failure` says why.
        FAILED = "failed"

    class Failure(models.TextChoices):
        """Why an event failed; empty unless it did."""

        # The receiver's response was permanent.
        REJECTED = "rejected"
        # The last retry failed.
        EXHAUSTED = "exhausted"
        # The endpoint was disabled before the event was delivered.
        DISABLED = "disabled"

    name = models.CharField(max_length=36, default=event_name)
    client = models.ForeignKey(Client, on_delete=models.PROTECT, related_name="+", db_index=False)
    # Null for a test event. Not a foreign key, because `webhooks` must not import `jobs`.
    job_id = models.BigIntegerField(null=True, unique=True)
    body = models.BinaryField()
    created_at = models.DateTimeField()
    state = models.CharField(max_length=9, choices=State, default=State.WAITING)
    failure = models.CharField(max_length=9, choices=Failure, blank=True)
    # Failed attempts since the event was created or resent: its position in the retry schedule.
    failures = models.PositiveSmallIntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True)
    # While it is being sent: when its worker counts as lost.
    lease_expires_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    # That of the job (`simservice/telemetry/tracing.py`)
    trace_parent = models.CharField(max_length=55, blank=True, default="", db_default="")

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
            # Claims: a client's due events.
            models.Index(
                fields=["client", "next_attempt_at"], condition=Q(state="waiting"), name="event_waiting_by_client"
            ),
            # Whether any event is due, and since when.
            models.Index(fields=["next_attempt_at"], condition=Q(state="waiting"), name="event_waiting"),
            # Events in flight, by client.
            models.Index(fields=["client"], condition=Q(state="sending"), name="event_sending"),
            # A client's events, newest first.
            models.Index(fields=["client", "-id"], name="event_by_client"),
            # A client's failed events in a period.
            models.Index(fields=["client", "created_at"], condition=Q(state="failed"), name="event_failed"),
            # Retention.
            models.Index(fields=["created_at"], condition=Q(state__in=["delivered", "failed"]), name="event_ended"),
        ]

    def __str__(self) -> str:
        return self.name


class Delivery(models.Model):
    """An attempt to deliver an event. The row is inserted before the request is made."""

    class Outcome(models.TextChoices):
        """How an attempt ended."""

        # The request is in progress.
        SENDING = "sending"
        # A 2xx response.
        DELIVERED = "delivered"
        # A temporary failure, retried unless this was the last attempt.
        FAILED = "failed"
        # A response that a retry would not change.
        REJECTED = "rejected"
        # The worker died or stalled; the request may or may not have been made.
        LOST = "lost"

    class Problem(models.TextChoices):
        """Why an attempt has no complete response."""

        # The URL or an address that its host name resolves to is not allowed.
        ADDRESS = "address"
        # The host name did not resolve, or not in time.
        DNS = "dns"
        # The receiver refused or broke the connection.
        CONNECTION = "connection"
        # The handshake failed or the certificate is invalid.
        TLS = "tls"
        # The response was not complete within `http_client.TIMEOUT_SECONDS`.
        TIMEOUT = "timeout"
        # The response is not valid HTTP.
        PROTOCOL = "protocol"
        # A bug or a missing key on our side.
        INTERNAL = "internal"

    name = models.CharField(max_length=36, default=delivery_name)
    event = models.ForeignKey(Event, on_delete=models.CASCADE, related_name="deliveries")
    outcome = models.CharField(max_length=9, choices=Outcome, default=Outcome.SENDING)
    started_at = models.DateTimeField()
    duration_ms = models.PositiveIntegerField(null=True)
    # The value of the signature header; empty if no request was made, or its worker was lost.
    signature = models.CharField(max_length=300, blank=True, default="", db_default="")
    # The IP address of the connection; empty if there was none.
    address = models.CharField(max_length=64, blank=True)
    status = models.PositiveSmallIntegerField(null=True)
    problem = models.CharField(max_length=10, choices=Problem, blank=True)
    # The problem as a sentence.
    detail = models.CharField(max_length=300, blank=True)
    # The beginning of the response body, at most 2 KiB.
    excerpt = models.TextField(blank=True)

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [models.UniqueConstraint(fields=["name"], name="delivery_name_unique")]
        indexes = [
            # Metrics of the last minutes.
            models.Index(fields=["started_at"], name="delivery_by_start"),
        ]

    def __str__(self) -> str:
        return self.name
