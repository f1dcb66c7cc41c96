"""Exports: requested on a page, built by a task, available until the next one or for a week, then deleted.

A task builds one export at a time, so that exports occupy one process of `control`. The file is written to a
temporary file first. No transaction is open meanwhile: the rows are read without one snapshot, so they can
differ by seconds.
"""

import logging
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, timedelta
from typing import IO, cast

from django.contrib.auth.models import User
from django.core.files import File
from django.core.files.storage import default_storage
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from billing.models import Account
from clients import audit
from clients.audit import Action, Actor
from privacy import account_data, archive, user_data
from privacy.archive import Section
from privacy.errors import ExportPending
from privacy.models import FOLDER, Export
from simservice.clocks import database_time
from simservice.storages import MAX_REMOVED_AT_ONCE, ArtifactStorage

logger = logging.getLogger(__name__)

KEPT = timedelta(days=7)
LEASE = timedelta(minutes=5)
RENEWED_EVERY_SECONDS = 30.0
MAX_ATTEMPTS = 3
DELETED_AT_ONCE, DELETING_SECONDS = 100, 10.0
# The names of files begin with the day of the request.
DATED = re.compile(r"\d{8}-")
# Makes concurrent tasks claim one after another.
CLAIM_LOCK = 7_316_504_211
WAITING = Q(completed_at=None, failed_at=None)


class ExportTaken(Exception):
    """Another task builds the export, or it was deleted."""


class RenewingFile(File):  # type: ignore[type-arg]  # Not generic at runtime
    """A file that renews the lease while the storage reads it. Reading raises ExportTaken."""

    def __init__(self, file: IO[bytes], renew: Callable[[], None]) -> None:
        super().__init__(file)
        self.renew = renew

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes."""
        self.renew()
        return cast(IO[bytes], self.file).read(size)


def request_account_export(account: Account, *, by: Actor) -> Export:
    """Request an export of an account. Raises ExportPending."""
    with transaction.atomic():
        Account.objects.select_for_update(no_key=True).get(pk=account.pk)
        _require_none_pending(of_account(account))
        audit.record(account.pk, Action.ACCOUNT_EXPORTED, by=by)
        return Export.objects.create(account=account, user=by.user)


def request_user_export(user: User) -> Export:
    """Request an export of a user. Raises ExportPending."""
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        _require_none_pending(of_user(user))
        return Export.objects.create(user=user)


def _require_none_pending(exports: QuerySet[Export]) -> None:
    if exports.filter(WAITING).exists():
        raise ExportPending


def of_account(account: Account) -> QuerySet[Export]:
    """Return the exports of an account, newest first."""
    return Export.objects.filter(account=account).order_by("-pk")


def of_user(user: User) -> QuerySet[Export]:
    """Return the exports of a user's own data, newest first."""
    return Export.objects.filter(user=user, account=None).order_by("-pk")


def available(exports: QuerySet[Export]) -> QuerySet[Export]:
    """Return the exports that can be downloaded now."""
    return exports.filter(completed_at__isnull=False, expires_at__gt=Now())


def build_waiting() -> int:
    """Build exports until none waits, or another task builds one. Return how many were built."""
    built = 0
    while (export := _claim()) is not None:
        built += build(export)
    return built


def _claim() -> Export | None:
    """Lease the oldest waiting export, unless one is being built. Return it, or None."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CLAIM_LOCK])
        waiting = Export.objects.filter(WAITING)
        if waiting.filter(lease_expires_at__gt=Now()).exists():
            return None
        lost = waiting.filter(attempt__gte=MAX_ATTEMPTS)
        lost.update(failed_at=Now(), lease_expires_at=None, expires_at=Now() + KEPT)
        export = waiting.order_by("pk").first()
        if export is not None:
            Export.objects.filter(pk=export.pk).update(attempt=F("attempt") + 1, lease_expires_at=Now() + LEASE)
            export.refresh_from_db()
    return export


def build(export: Export) -> bool:
    """Build the file of a leased export. Return whether it is available.

    Otherwise it is built again when the lease has expired, up to `MAX_ATTEMPTS` times.
    """
    try:
        renew = _renewal(export)
        with tempfile.TemporaryFile() as content:
            archive.write(content, _sections(export), keep_alive=renew)
            size = content.tell()
            content.seek(0)
            default_storage.save(export.file_name, RenewingFile(content, renew))
        with transaction.atomic():
            _write(export, completed_at=Now(), bytes=size, expires_at=Now() + KEPT, lease_expires_at=None)
            # The export replaces the previous one.
            of_same = {"account": export.account} if export.account else {"account": None, "user": export.user}
            available(Export.objects.filter(**of_same)).exclude(pk=export.pk).update(expires_at=Now())
    except (OSError, ExportTaken) as error:
        logger.warning("export %s was not built, attempt %s: %r", export.pk, export.attempt, error)
        with suppress(OSError):
            default_storage.delete(export.file_name)
        return False
    return True


def _sections(export: Export) -> Iterator[Section]:
    if export.account is not None:
        return account_data.sections(export.account)
    if export.user is None:
        raise ExportTaken("the user was deleted")
    return user_data.sections(export.user)


def _renewal(export: Export) -> Callable[[], None]:
    """Return the function that renews the lease if it is time. It raises ExportTaken."""
    due = time.monotonic() + RENEWED_EVERY_SECONDS

    def renew() -> None:
        nonlocal due
        if time.monotonic() >= due:
            _write(export, lease_expires_at=Now() + LEASE)
            due = time.monotonic() + RENEWED_EVERY_SECONDS

    return renew


def _write(export: Export, **changes: object) -> None:
    """Change the row of an export that this attempt builds. Raises ExportTaken."""
    if not Export.objects.filter(WAITING, pk=export.pk, attempt=export.attempt).update(**changes):
        raise ExportTaken


def delete_expired() -> int:
    """Delete expired exports with their files, for about `DELETING_SECONDS`. Return how many were deleted.

    Their order is random, so that an export that cannot be deleted does not stop the others.
    """
    until, deleted = time.monotonic() + DELETING_SECONDS, 0
    for export in Export.objects.filter(expires_at__lt=Now()).order_by("?")[:DELETED_AT_ONCE]:
        if time.monotonic() > until:
            break
        try:
            deleted += delete([export])
        except OSError as error:
            logger.warning("export %s was not deleted and will be retried: %s", export.pk, error)
    return deleted


def delete_unknown() -> int:
    """Delete files that belong to no export, for example after a restore. Return how many. Raises OSError.

    Only files older than every export that can still be available are deleted: a database that does not know newer
    files may be the wrong one.
    """
    oldest = f"{database_time().astimezone(UTC) - KEPT - timedelta(days=1):%Y%m%d}"
    names = [name for name in default_storage.listdir(FOLDER)[1] if DATED.match(name) and name < oldest]
    by_base = {f"{FOLDER}/{name.rpartition('-')[0]}": f"{FOLDER}/{name}" for name in names[:MAX_REMOVED_AT_ONCE]}
    known = Export.objects.filter(storage_name__in=by_base).values_list("storage_name", flat=True)
    if unknown := [by_base[base] for base in by_base.keys() - set(known)]:
        cast(ArtifactStorage, default_storage).delete_many(unknown)
    return len(unknown)


def delete(exports: Iterable[Export]) -> int:
    """Delete exports that are not being built, files first, so that a crash in between leaves the row.

    Raises OSError.
    """
    deleted = 0
    for export in exports:
        unleased = Export.objects.filter(pk=export.pk).exclude(lease_expires_at__gt=Now())
        if (current := unleased.first()) is not None:
            cast(ArtifactStorage, default_storage).delete_many(current.file_names)
            deleted += unleased.delete()[0]
    return deleted


def open_file(export: Export) -> IO[bytes]:
    """Open the file of an export. Raises FileNotFoundError, or another OSError if the storage does not respond."""
    return cast(IO[bytes], default_storage.open(export.file_name))
