"""Bytes of an account's artifacts, counted when jobs end and when retention removes their files.

The bytes are those of the content, which the API shows; stored files are smaller, because they are compressed. An
account's row is locked after its balance, and rows of several accounts are locked in the order of their ids.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Greatest

from billing.models import Account
from jobs.models import StoredBytes
from simservice.postgresql.statements import load

SQL = load(__file__)


@dataclass(frozen=True)
class Discrepancy:
    """An account whose counted bytes differ from the sum of its artifacts."""

    account_id: int
    counted: int
    present: int

    def __str__(self) -> str:
        return f"account {self.account_id}: counted {self.counted} bytes, artifacts have {self.present} bytes"


def stored_bytes(account: Account) -> int:
    """Return the bytes of the account's artifacts."""
    return StoredBytes.objects.filter(pk=account.pk).values_list("bytes", flat=True).first() or 0


def subtract(job_ids: Collection[int]) -> None:
    """Subtract the artifacts of jobs that are being cleared, in the transaction that clears them."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["lock_stored_bytes"], {"jobs": list(job_ids)})
        cursor.execute(SQL["subtract_stored_bytes"], {"jobs": list(job_ids)})


def subtract_bytes(account_id: int, removed: int) -> None:
    """Subtract the bytes of artifacts that are being removed, in the transaction that removes them."""
    StoredBytes.objects.filter(pk=account_id).update(bytes=Greatest(F("bytes") - removed, 0))


def verify() -> Iterator[Discrepancy]:
    """Yield the accounts whose count is wrong. One query that reads all artifacts."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["stored_bytes_discrepancies"])
        rows = cursor.fetchall()
    for row in rows:
        yield Discrepancy(*row)


@transaction.atomic
def mend(account_id: int) -> int:
    """Replace an account's count with the sum of its artifacts, and return the sum.

    Jobs that end meanwhile wait for the lock and are counted afterwards, because the sum cannot see them.
    """
    StoredBytes.objects.get_or_create(account_id=account_id)
    StoredBytes.objects.select_for_update(no_key=True).get(pk=account_id)
    with connection.cursor() as cursor:
        cursor.execute(SQL["mend_stored_bytes"], {"account_id": account_id})
        ((present,),) = cursor.fetchall()
    return int(present)
