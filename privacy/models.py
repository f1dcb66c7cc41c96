"""Exports of data, and deletions of accounts."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from billing.models import Account
from simservice.ids import new_token

FOLDER = "exports"


def storage_name() -> str:
    """Return a new name in the artifact storage that begins with the day. File names append the attempt."""
    return f"{FOLDER}/{timezone.now():%Y%m%d}-{new_token()}"


class Export(models.Model):
    """A ZIP file with the data of an account, or of a user if `account` is null.

    It waits, is built by a task that renews a lease, and is then available until `expires_at`. The row and the file
    are deleted afterwards. `attempt` fences the writes of the task.
    """

    account = models.ForeignKey(Account, null=True, on_delete=models.CASCADE, related_name="+")
    # The user whose data it is, or who requested the export of the account.
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    storage_name = models.CharField(max_length=64, unique=True, default=storage_name)
    created_at = models.DateTimeField(db_default=Now())
    attempt = models.PositiveSmallIntegerField(default=0)
    lease_expires_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    bytes = models.PositiveBigIntegerField(null=True)
    expires_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(completed_at=None, bytes=None)
                | Q(completed_at__isnull=False, bytes__isnull=False, failed_at=None),
                name="export_completed_has_a_file",
            ),
            models.CheckConstraint(
                condition=Q(completed_at=None, failed_at=None) | Q(expires_at__isnull=False),
                name="export_ended_expires",
            ),
        ]
        indexes = [
            models.Index(fields=["id"], condition=Q(completed_at=None, failed_at=None), name="export_waiting"),
            models.Index(fields=["expires_at"], condition=Q(expires_at__isnull=False), name="export_expiring"),
        ]

    def __str__(self) -> str:
        return f"export {self.pk}"

    @property
    def file_name(self) -> str:
        """Return the name of the current attempt's file. A lost attempt that still writes has a different one."""
        return self.file_names[-1]

    @property
    def file_names(self) -> list[str]:
        """Return the names of the files of all attempts, at least one."""
        return [f"{self.storage_name}-{attempt}.zip" for attempt in range(1, max(self.attempt, 1) + 1)]


class AccountDeletion(models.Model):
    """The deletion of an account. It can be undone until `due_at`; the row stays when the data is gone."""

    account = models.OneToOneField(Account, primary_key=True, on_delete=models.PROTECT, related_name="deletion")
    requested_at = models.DateTimeField(db_default=Now())
    # The name of the user or operator, deleted with the other data.
    requested_by = models.CharField(max_length=300, blank=True)
    due_at = models.DateTimeField()
    # When an operator had suspended the account before, which stays if the deletion is undone.
    suspended_before = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["due_at"], condition=Q(completed_at=None), name="account_deletion_open"),
        ]
        permissions = [("end_grace_period", "Can end the grace period of account deletions")]

    def __str__(self) -> str:
        return f"deletion of account {self.account}"

    @property
    def has_started(self) -> bool:
        """Return whether the grace period has ended, so that it cannot be undone."""
        return self.due_at <= timezone.now()
