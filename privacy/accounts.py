"""Deletion of an account: a grace period, then the removal of its data in bounded batches.

Every step can be repeated, and finds by the database alone what is left to do. So a process can be killed between
any two lines, and two processes can work at once. The ledger stays: `docs/explanation/data-protection.md`.
"""

import logging
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.contrib.postgres.functions import RandomUUID
from django.db import connection, transaction
from django.db.models import CharField, Count, Exists, OuterRef, QuerySet, Value
from django.db.models.functions import Cast, Concat, Now

from billing.models import Account
from clients import audit, keys
from clients.audit import SYSTEM, Action, Actor
from clients.models import ApiKey, AuditEvent, Client, CreditsNotice, Invitation, Membership
from jobs.artifacts import retention
from jobs.enums import ACTIVE
from jobs.errors import JobAlreadyEnded
from jobs.lifecycle import cancellation
from jobs.models import DailyUsage, Job, StoredBytes
from privacy import exports
from privacy.errors import DeletionStarted
from privacy.models import AccountDeletion, Export
from simservice.clocks import database_time
from webhooks import endpoints
from webhooks.models import Endpoint, Event

logger = logging.getLogger(__name__)

GRACE = timedelta(days=14)
BATCH = 200
# Shorter than the interval between two rounds
ROUND_SECONDS = 45.0
# How many accounts have jobs cancelled in a round, of up to `BATCH` jobs each
MAX_CANCELLING = 50
# What replaces names and hashes that must be unique
ANONYMOUS = Concat(Value("deleted-"), Cast(RandomUUID(), CharField()))
ANONYMOUS_PATTERN = "^deleted-[0-9a-f-]{36}$"
# Allows the trigger of the audit log to delete events until the transaction ends.
ALLOW_DELETION = "SET LOCAL simservice.removes_account = 'on'"


class InUse(NamedTuple):
    """The numbers of active keys, enabled webhooks and unfinished jobs of an account."""

    keys: int
    endpoints: int
    jobs: int


def in_use(chosen: Iterable[Account]) -> dict[int, InUse]:
    """Return what the deletion of accounts would end, by account."""
    ids = [account.pk for account in chosen]
    keys_of = _counts(ApiKey.objects.filter(keys.is_active(), client__account__in=ids), "client__account")
    endpoints_of = _counts(Endpoint.objects.filter(disabled_at=None, client__account__in=ids), "client__account")
    jobs_of = _counts(Job.objects.filter(status__in=ACTIVE, account__in=ids), "account")
    return {pk: InUse(keys_of.get(pk, 0), endpoints_of.get(pk, 0), jobs_of.get(pk, 0)) for pk in ids}


def _counts(rows: QuerySet[Any], name: str) -> dict[int, int]:
    """Return the number of rows by the account that a field names."""
    return dict(rows.order_by().values_list(name).annotate(Count("pk")))


def request(account: Account, *, by: Actor) -> AccountDeletion:
    """Start the deletion of an account; a repeated call returns the first request.

    The account is suspended, its keys are revoked, its webhooks disabled and its invitations closed at once. A task
    cancels its jobs.
    """
    with transaction.atomic():
        locked = Account.objects.select_for_update(no_key=True).get(pk=account.pk)
        # In whole seconds, because the admin's form saves the suspension without fractions of a second
        now = database_time().replace(microsecond=0)
        deletion, is_new = AccountDeletion.objects.get_or_create(
            account=account,
            defaults={
                "requested_at": now,
                "requested_by": by.label,
                "due_at": now + GRACE,
                "suspended_before": locked.suspended_at,
            },
        )
        if is_new:
            audit.record(account.pk, Action.ACCOUNT_DELETION_REQUESTED, by=by)
            Account.objects.filter(pk=account.pk).update(suspended_at=now)
            _stop(account, by=by)
    return deletion


def undo(account: Account, *, by: Actor) -> bool:
    """Undo the deletion of an account. Return False if there is none. Raises DeletionStarted.

    Revoked keys, disabled webhooks, cancelled jobs, and a suspension that an operator changed after the request
    stay unchanged.
    """
    with transaction.atomic():
        Account.objects.select_for_update(no_key=True).get(pk=account.pk)
        deletion = AccountDeletion.objects.filter(pk=account.pk).first()
        if deletion is None:
            return False
        deleted, _ = AccountDeletion.objects.filter(pk=account.pk, due_at__gt=Now()).delete()
        if not deleted:
            raise DeletionStarted
        unchanged = Account.objects.filter(pk=account.pk, suspended_at=deletion.requested_at)
        unchanged.update(suspended_at=deletion.suspended_before)
        audit.record(account.pk, Action.ACCOUNT_DELETION_UNDONE, by=by)
    return True


def finish_now(account: Account, *, by: Actor) -> bool:
    """End the grace period of a requested deletion; a task then removes the data. Return False if there is none."""
    with transaction.atomic():
        Account.objects.select_for_update(no_key=True).get(pk=account.pk)
        if not AccountDeletion.objects.filter(pk=account.pk, due_at__gt=Now()).update(due_at=Now()):
            return False
        audit.record(account.pk, Action.ACCOUNT_GRACE_PERIOD_ENDED, by=by)
    return True


def of(account: Account) -> AccountDeletion | None:
    """Return the requested deletion of an account, or None."""
    return AccountDeletion.objects.filter(pk=account.pk).first()


def _stop(account: Account, *, by: Actor) -> None:
    """Suspend a locked account and end everything by which it acts, except its jobs."""
    Account.objects.filter(pk=account.pk, suspended_at=None).update(suspended_at=Now())
    keys.revoke_all(ApiKey.objects.filter(client__account=account), by=by)
    Invitation.objects.filter(account=account, closed_at=None).update(closed_at=Now())
    enabled = Endpoint.objects.filter(client__account=account, disabled_at=None).select_related("client")
    for endpoint in enabled.order_by("pk").select_for_update(of=("self",), no_key=True):
        endpoints.switch_off(endpoint, because=Endpoint.Disabled.BY_OWNER, by=by)


def proceed() -> int:
    """Cancel the jobs of accounts that are being deleted, and remove data whose grace period has ended.

    Return how many deletions were completed. Takes at most about `ROUND_SECONDS`. First, jobs of up to
    `MAX_CANCELLING` accounts are cancelled. The rest of the time is shared, so that no account waits for a large
    one.
    """
    until, completed = time.monotonic() + ROUND_SECONDS, 0
    opened = AccountDeletion.objects.filter(completed_at=None).select_related("account").order_by("due_at")
    unfinished = Job.objects.filter(account=OuterRef("pk"), status__in=ACTIVE)
    for deletion in opened.filter(Exists(unfinished))[:MAX_CANCELLING]:
        _attempt(cancel_jobs, deletion.account)
    due = list(opened.filter(due_at__lte=Now()))
    for position, deletion in enumerate(due):
        now = time.monotonic()
        if now > until:
            break
        share = (until - now) / (len(due) - position)
        completed += _attempt(_advance, deletion.account, until=now + share)
    return completed


def _attempt(step: Callable[..., int], account: Account, **options: float) -> int:
    """Return the result of a step of a deletion. If it fails, log the error and return 0: it will be repeated."""
    try:
        return step(account, **options)
    except Exception:
        logger.exception("the deletion of account %s failed and will be continued", account.pk)
        return 0


def _lock(account: Account) -> QuerySet[AccountDeletion]:
    """Lock an account. Return its open deletion, or an empty query set if it was undone or completed."""
    Account.objects.select_for_update(no_key=True).get(pk=account.pk)
    return AccountDeletion.objects.filter(pk=account.pk, completed_at=None)


def _advance(account: Account, *, until: float) -> bool:
    """Remove the data of an account until the monotonic time `until`. Return whether the deletion is completed."""
    with transaction.atomic():
        # Since the round began, the deletion may have been undone.
        if not _lock(account).filter(due_at__lte=Now()).exists():
            return False
        # Again, because an operator may have lifted the suspension. No job is submitted from here on.
        _stop(account, by=SYSTEM)
    if cancel_jobs(account):
        return False
    exports.delete(exports.of_account(account))
    if not (remove_jobs(account, until=until) and remove_webhook_events(account, until=until)):
        return False
    return remove_rest(account, until=until)


def cancel_jobs(account: Account) -> int:
    """Cancel a batch of the account's unfinished jobs. Return how many are unfinished."""
    unfinished = Job.objects.filter(account=account, status__in=ACTIVE)
    with transaction.atomic():
        if not _lock(account).exists():
            return 0
        batch = list(unfinished.filter(cancel_requested_at=None)[:BATCH])
    for job in batch:
        with suppress(JobAlreadyEnded):
            cancellation.cancel(job, by=SYSTEM)
    return unfinished.count()


def remove_jobs(account: Account, *, until: float) -> bool:
    """Remove jobs with their files until none is left or `until`. Return whether none is left."""
    jobs = Job.objects.filter(account=account).order_by("pk")
    while batch := dict(jobs.values_list("pk", "cleared_at")[:BATCH]):
        if time.monotonic() > until:
            return False
        retention.clear_jobs([job_id for job_id, cleared_at in batch.items() if cleared_at is None], until=until)
        removed, _ = Job.objects.filter(pk__in=batch, cleared_at__isnull=False).delete()
        if not removed:
            # The storage does not remove their files.
            return False
    return True


def remove_webhook_events(account: Account, *, until: float) -> bool:
    """Remove webhook events until none is left or `until`. Return whether none is left."""
    for client in Client.objects.filter(account=account):
        # An event in flight is removed when its request has ended.
        events = Event.objects.filter(client=client).exclude(state=Event.State.SENDING)
        while _delete_batch(events):
            if time.monotonic() > until:
                return False
    return not Event.objects.filter(client__account=account).exists()


def remove_rest(account: Account, *, until: float) -> bool:
    """Remove the audit log, then everything else except the ledger. Return whether the deletion is completed.

    A request that began earlier can still write rows. The deletion is therefore completed in a later round,
    once there is nothing left to remove.
    """
    removed = 0
    while batch := _delete_batch(AuditEvent.objects.filter(account=account)):
        removed += batch
        if time.monotonic() > until:
            return False
    with transaction.atomic():
        deletion = _lock(account)
        removed += _remove_rows(account)
        if removed or Export.objects.filter(account=account).exists():
            return False
        Account.objects.filter(pk=account.pk).update(name=f"deleted-{account.pk}-{secrets.token_hex(4)}")
        completed = deletion.update(completed_at=Now(), requested_by="")
    logger.info("the data of account %s is deleted", account.pk)
    return bool(completed)


def _remove_rows(account: Account) -> int:
    """Delete the few remaining rows of a locked account. Return how many were deleted or made anonymous."""
    with connection.cursor() as cursor:
        cursor.execute(ALLOW_DELETION)
    _blank_admin_history(account)
    removed, _ = Endpoint.objects.filter(client__account=account).delete()
    for model in (AuditEvent, DailyUsage, StoredBytes, Invitation, Membership, CreditsNotice):
        removed += model._default_manager.filter(account=account).delete()[0]  # noqa: SLF001 - documented by Django
    # Clients and keys stay without personal data, because deleting one would require a search of all jobs.
    clients = Client.objects.filter(account=account, is_default=False).exclude(name__regex=ANONYMOUS_PATTERN)
    keys = ApiKey.objects.filter(client__account=account).exclude(sha256__regex=ANONYMOUS_PATTERN)
    removed += clients.update(name=ANONYMOUS)
    return removed + keys.update(
        name="", sha256=ANONYMOUS, last4="", created_by=None, expires_at=None, last_used_at=None, addresses=[]
    )


def _blank_admin_history(account: Account) -> None:
    """Remove the names of an account's objects from the history of the admin."""
    direct = [model.objects.filter(account=account) for model in (AccountDeletion, Client, Invitation, Membership)]
    of_clients = [model.objects.filter(client__account=account) for model in (ApiKey, Endpoint)]
    for rows in (Account.objects.filter(pk=account.pk), *direct, *of_clients):
        ids = [str(pk) for pk in rows.values_list("pk", flat=True)]
        entries = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(rows.model))
        entries.filter(object_id__in=ids).update(object_repr="", change_message="")
    # Of memberships that were deleted in the admin, only the name is left.
    memberships = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(Membership))
    memberships.filter(object_repr__endswith=f" in {account.name}").update(object_repr="", change_message="")


def _delete_batch(rows: QuerySet[Any]) -> int:
    """Delete a batch of rows. Return how many were deleted, with rows that depend on them."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(ALLOW_DELETION)
        batch = list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH])
        deleted, _ = rows.filter(pk__in=batch).delete()
    return deleted
