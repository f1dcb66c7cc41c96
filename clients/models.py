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
    # Null for keys made by commands, and for keys older than this column.
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
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


class AuditEvent(models.Model):
    """A change to an account: who made it, when, and from which address.

    Written in the transaction of the change, and never changed or deleted (a trigger prevents that). There is no
    foreign key to users, because events must survive the deletion of a user.
    """

    class Action(models.TextChoices):
        """What was done. The first word names the object of `target_id`; details are in parentheses."""

        # A key was created (client, name).
        KEY_CREATED = "key.created"
        # A key got another name (name).
        KEY_RENAMED = "key.renamed"
        # An operator changed when a key expires (expires).
        KEY_EXPIRY_CHANGED = "key.expiry_changed"
        # A key was revoked.
        KEY_REVOKED = "key.revoked"
        # A client was created.
        CLIENT_CREATED = "client.created"
        # A client's webhook was set up or enabled again, with a new secret (host).
        WEBHOOK_ENABLED = "webhook.enabled"
        # A client's webhook got another address (host).
        WEBHOOK_ADDRESS_CHANGED = "webhook.address_changed"
        # The signing secret was replaced (hours for which the old one still signs).
        WEBHOOK_SECRET_ROTATED = "webhook.secret_rotated"  # noqa: S105 - no password
        # A webhook was disabled by a member, or by the system because it kept failing.
        WEBHOOK_DISABLED = "webhook.disabled"
        # Somebody was invited (role).
        INVITATION_CREATED = "invitation.created"
        # An open invitation was withdrawn.
        INVITATION_REVOKED = "invitation.revoked"
        # A user became a member, by an invitation or by an operator (role).
        MEMBER_JOINED = "member.joined"
        # A member got another role (old, new).
        MEMBER_ROLE_CHANGED = "member.role_changed"
        # A member was removed by another person.
        MEMBER_REMOVED = "member.removed"
        # A member left.
        MEMBER_LEFT = "member.left"
        # The account moved to another plan (old, new).
        ACCOUNT_PLAN_CHANGED = "account.plan_changed"
        # The account got another name (old, new).
        ACCOUNT_RENAMED = "account.renamed"
        # The account can no longer submit jobs.
        ACCOUNT_SUSPENDED = "account.suspended"
        # The account can submit jobs again.
        ACCOUNT_RESUMED = "account.resumed"
        # An operator granted credits (credits, reason).
        CREDITS_GRANTED = "credits.granted"
        # An operator corrected the purchased credits (credits, reason).
        CREDITS_CORRECTED = "credits.corrected"
        # A job was cancelled by somebody other than the API key that submitted it.
        JOB_CANCELLED = "job.cancelled"
        # An operator took a job from its worker, back into the queue.
        JOB_REQUEUED = "job.requeued"
        # An operator ended a job as lost.
        JOB_RELEASED = "job.released"

    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="audit_events", db_index=False)
    at = models.DateTimeField(db_default=Now())
    action = models.CharField(max_length=32, choices=Action)
    # The user who acted; null for an API key, a command or the system.
    user_id = models.BigIntegerField(null=True)
    # The actor's name at the time.
    actor = models.CharField(max_length=300)
    # Where the request came from; null when there was no request.
    address = models.GenericIPAddressField(null=True)
    target_id = models.BigIntegerField(null=True)
    # The name of the changed object at the time.
    target = models.CharField(max_length=300, blank=True)
    details = models.JSONField(default=dict)

    class Meta:
        indexes = [
            models.Index(fields=["account", "-id"], name="audit_by_account"),
            models.Index(fields=["account", "user_id", "-id"], name="audit_by_user"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.target}".rstrip()


class SentForm(models.Model):
    """A form that was sent and did its work, so that the same form sent again does nothing (`clients/once.py`)."""

    token = models.CharField(primary_key=True, max_length=22)
    sent_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["sent_at"], name="sent_form_by_time")]

    def __str__(self) -> str:
        return self.token
