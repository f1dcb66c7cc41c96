"""Clients of an account, their API keys, and the people who may see the account."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower, Now
from django.utils import timezone

from billing.models import Account

DEFAULT_CLIENT = "default"


class Client(models.Model):
    """One of an account's integrations. Each account has exactly one built-in client, which new keys attach to."""

    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="clients")
    name = models.CharField(max_length=64)
    is_default = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["account", "name"], name="client_name_unique"),
            models.UniqueConstraint(fields=["account"], condition=Q(is_default=True), name="client_one_default"),
            models.CheckConstraint(
                condition=Q(is_default=True, name=DEFAULT_CLIENT) | (Q(is_default=False) & ~Q(name=DEFAULT_CLIENT)),
                name="client_default_named_default",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.account}/{self.name}"


class ApiKey(models.Model):
    """A key of a client. Only its hash and its last four characters are kept (contract, section 2)."""

    client = models.ForeignKey(Client, on_delete=models.PROTECT, related_name="keys")
    name = models.CharField(max_length=64, blank=True)
    sha256 = models.CharField(max_length=64, unique=True)
    last4 = models.CharField(max_length=4)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"sk_…{self.last4}"

    @property
    def state(self) -> str:
        """Tell whether the key serves: `active`, `expired` or `revoked`, which comes before `expired`."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= timezone.now() else "active"


class Membership(models.Model):
    """A user's place in an account."""

    class Role(models.TextChoices):
        OWNER = "owner"
        MEMBER = "member"
        VIEWER = "viewer"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=8, choices=Role)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "account"], name="membership_unique"),
            models.CheckConstraint(
                condition=Q(role__in=["owner", "member", "viewer"]), name="membership_role_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.account}"


class Invitation(models.Model):
    """An offer of a place in an account, for whoever has its token. Only the token's hash is kept."""

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField(max_length=254)
    role = models.CharField(max_length=8, choices=Membership.Role)
    sha256 = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    # Accepted, revoked, or replaced by a later one.
    closed_at = models.DateTimeField(null=True, blank=True)
    accepted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                "account", Lower("email"), condition=Q(closed_at=None), name="invitation_one_open"
            ),
            models.CheckConstraint(
                condition=Q(role__in=["owner", "member", "viewer"]), name="invitation_role_known"
            ),
            models.CheckConstraint(
                condition=Q(accepted_by=None) | Q(closed_at__isnull=False), name="invitation_accepted_is_closed"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.email} to {self.account}"

    @property
    def has_expired(self) -> bool:
        return self.expires_at <= timezone.now()


class SentForm(models.Model):
    """A form that was sent and did its work, so that the same form sent again does nothing (`clients/once.py`)."""

    token = models.CharField(primary_key=True, max_length=22)
    sent_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["sent_at"], name="sent_form_by_time")]

    def __str__(self) -> str:
        return self.token
