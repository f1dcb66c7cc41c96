"""Clients and API keys of an account, its members, invitations and audit events."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower, Now
from django.utils import timezone

from billing.models import Account
from simservice.api.scopes import Scope

DEFAULT_CLIENT = "default"


class Client(models.Model):
    """An integration of an account. Each account has exactly one built-in client, the default for new keys."""

    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="clients")
    name = models.CharField(max_length=64)
    is_default = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

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
    """An API key of a client, stored as a hash and its last four characters.

    Format: `docs/reference/api.md#api-keys`.
    """

    class State(models.TextChoices):
        # Accepted for requests.
        ACTIVE = "active"
        # Past its expiry.
        EXPIRED = "expired"
        # Revoked by a person, whether or not it has expired since.
        REVOKED = "revoked"

    client = models.ForeignKey(Client, on_delete=models.PROTECT, related_name="keys")
    name = models.CharField(max_length=64, blank=True)
    sha256 = models.CharField(max_length=64, unique=True)
    last4 = models.CharField(max_length=4)
    # Null for keys created by a command
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    # What the key may do. Keys created before scopes existed can do everything.
    scope = models.CharField(max_length=6, choices=Scope, default=Scope.MANAGE, db_default=Scope.MANAGE)
    # The networks from which the key is accepted, in CIDR notation; empty for all
    addresses = ArrayField(models.CharField(max_length=43), default=list, db_default=[], blank=True)
    # Set by the queries of `clients/keys.py`.
    is_read_only: bool
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        # The admin's search
        indexes = [models.Index(fields=["last4"], name="key_by_last4")]

    def __str__(self) -> str:
        return f"sk_…{self.last4}"

    @property
    def state(self) -> State:
        """Return whether the key is active, expired or revoked."""
        if self.revoked_at is not None:
            return self.State.REVOKED
        has_expired = self.expires_at is not None and self.expires_at <= timezone.now()
        return self.State.EXPIRED if has_expired else self.State.ACTIVE


class Membership(models.Model):
    """Membership of a user in an account."""

    class Role(models.TextChoices):
        # Can also manage members and read the audit log.
        OWNER = "owner"
        # Can also submit and cancel jobs, and create keys and webhooks.
        MEMBER = "member"
        # Can read everything except secrets and the audit log.
        VIEWER = "viewer"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=8, choices=Role)
    # Whether the user hid the first steps. Per member, because others may still be working through them.
    hides_first_steps = models.BooleanField(default=False, db_default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "account"], name="membership_unique"),
            models.CheckConstraint(
                condition=Q(role__in=["owner", "member", "viewer"]), name="membership_role_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.account}"


class FirstAccount(models.Model):
    """The first account that a user opened: the only one for which they get welcome credits.

    It stays when they leave the account, so that leaving and opening another one grants no more credits.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.CASCADE, related_name="first_account"
    )
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="+")
    # Whether it got no welcome credits, because another user had opened an account with the same mailbox
    mailbox_was_used = models.BooleanField(default=False, db_default=False)

    def __str__(self) -> str:
        return f"{self.account} of {self.user}"


class UsedMailbox(models.Model):
    """A keyed hash of a mailbox that has opened an account (`clients/accounts.py`)."""

    digest = models.CharField(primary_key=True, max_length=64)

    class Meta:
        verbose_name_plural = "used mailboxes"

    def __str__(self) -> str:
        return self.digest


class Invitation(models.Model):
    """An invitation to an account. Anyone with its token can accept it; only the hash of the token is stored."""

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField(max_length=254)
    role = models.CharField(max_length=8, choices=Membership.Role)
    sha256 = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField()
    # When it was accepted, revoked or replaced by a later invitation.
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

    Written in the transaction of the change. A trigger prevents changes, and deletions unless the account is
    deleted. `user_id` is not a foreign key, because events must survive the deletion of a user.
    """

    class Action(models.TextChoices):
        """Kind of change. The first part is the type of the target; comments list the details in parentheses."""

        # A key was created (client, name, and scope and addresses if they limit it).
        KEY_CREATED = "key.created"
        # A key was renamed (name).
        KEY_RENAMED = "key.renamed"
        # The scope of a key was changed (old, new).
        KEY_SCOPE_CHANGED = "key.scope_changed"
        # The addresses from which a key is accepted were changed (old, new).
        KEY_ADDRESSES_CHANGED = "key.addresses_changed"
        # An operator changed when a key expires (expires).
        KEY_EXPIRY_CHANGED = "key.expiry_changed"
        # A key was revoked.
        KEY_REVOKED = "key.revoked"
        # A client was created.
        CLIENT_CREATED = "client.created"
        # A webhook was enabled with a new secret (host).
        WEBHOOK_ENABLED = "webhook.enabled"
        # The URL of a webhook was changed (host).
        WEBHOOK_ADDRESS_CHANGED = "webhook.address_changed"
        # A signing secret was replaced (hours during which the old secret still signs).
        WEBHOOK_SECRET_ROTATED = "webhook.secret_rotated"  # noqa: S105 - not a password
        # A webhook was disabled by a member, or by the system after it kept failing.
        WEBHOOK_DISABLED = "webhook.disabled"
        # Low-credit events of a webhook were turned on or off (new).
        WEBHOOK_EVENTS_CHANGED = "webhook.events_changed"
        # An invitation was sent (role).
        INVITATION_CREATED = "invitation.created"
        # An open invitation was revoked.
        INVITATION_REVOKED = "invitation.revoked"
        # A user became a member by an invitation or an operator (role).
        MEMBER_JOINED = "member.joined"
        # The role of a member was changed (old, new).
        MEMBER_ROLE_CHANGED = "member.role_changed"
        # A member was removed by someone else.
        MEMBER_REMOVED = "member.removed"
        # A member left the account.
        MEMBER_LEFT = "member.left"
        # The plan was changed (old, new).
        ACCOUNT_PLAN_CHANGED = "account.plan_changed"
        # The account was renamed (old, new).
        ACCOUNT_RENAMED = "account.renamed"
        # The account was suspended: it cannot submit jobs.
        ACCOUNT_SUSPENDED = "account.suspended"
        # The suspension was lifted.
        ACCOUNT_RESUMED = "account.resumed"
        # A member or an operator requested an export of the account's data.
        ACCOUNT_EXPORTED = "account.exported"
        # The deletion of the account was requested.
        ACCOUNT_DELETION_REQUESTED = "account.deletion_requested"
        # The deletion of the account was undone in its grace period.
        ACCOUNT_DELETION_UNDONE = "account.deletion_undone"
        # An operator ended the grace period of the account's deletion.
        ACCOUNT_GRACE_PERIOD_ENDED = "account.grace_period_ended"
        # What share links show of the account's jobs was changed (new).
        ACCOUNT_SHARING_CHANGED = "account.sharing_changed"
        # An operator granted credits (credits, reason).
        CREDITS_GRANTED = "credits.granted"
        # An operator added or removed credits (credits, reason).
        CREDITS_CORRECTED = "credits.corrected"
        # The threshold of the low-credit notice was changed (old, new).
        CREDITS_NOTICE_CHANGED = "credits.notice_changed"
        # A job was cancelled, not by the API key that submitted it.
        JOB_CANCELLED = "job.cancelled"
        JOB_PAUSED = "job.paused"
        JOB_RESUMED = "job.resumed"
        # A member changed the title of a job (title).
        JOB_RENAMED = "job.renamed"
        # The public links of a job were replaced.
        JOB_LINKS_REPLACED = "job.links_replaced"
        # What the share link of a job shows was changed (new).
        JOB_SHARING_CHANGED = "job.sharing_changed"
        # An operator returned a running job to the queue.
        JOB_REQUEUED = "job.requeued"
        # An operator ended a running job as lost.
        JOB_RELEASED = "job.released"

    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="audit_events", db_index=False)
    at = models.DateTimeField(db_default=Now())
    action = models.CharField(max_length=32, choices=Action)
    # The acting user; null for an API key, a command or the system.
    user_id = models.BigIntegerField(null=True)
    # Name of the actor at that time.
    actor = models.CharField(max_length=300)
    # IP address of the request; null without a request.
    address = models.GenericIPAddressField(null=True)
    target_id = models.BigIntegerField(null=True)
    # Name of the changed object at that time.
    target = models.CharField(max_length=300, blank=True)
    details = models.JSONField(default=dict)

    class Meta:
        indexes = [
            models.Index(fields=["account", "-id"], name="audit_by_account"),
            models.Index(fields=["account", "user_id", "-id"], name="audit_by_user"),
            # The timeline of a job
            models.Index(fields=["target_id"], condition=Q(action__startswith="job."), name="audit_by_job"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.target}".rstrip()


class CreditsNotice(models.Model):
    """The low-credit notice of an account (`clients/credit_notices.py`)."""

    account = models.OneToOneField(
        Account, primary_key=True, on_delete=models.CASCADE, related_name="credits_notice", editable=False
    )
    threshold = models.PositiveBigIntegerField()
    # Whether the credits were below the threshold at the last comparison
    is_low = models.BooleanField(default=False)
    # When they last dropped below it
    fell_at = models.DateTimeField(null=True)
    # When to mail the owners; null if there is nothing to report.
    tell_owners_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(threshold__gt=0), name="credits_notice_positive")]
        indexes = [
            models.Index(
                fields=["tell_owners_at"], condition=Q(tell_owners_at__isnull=False), name="credits_notice_untold"
            )
        ]

    def __str__(self) -> str:
        return f"{self.account_id}: below {self.threshold}"


class SentForm(models.Model):
    """A used form token, so that a form is processed only once (`clients/form_tokens.py`)."""

    token = models.CharField(primary_key=True, max_length=22)
    sent_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["sent_at"], name="sent_form_by_time")]

    def __str__(self) -> str:
        return self.token
