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

# The bytes of an account
STORED_BYTES = "coalesce((SELECT bytes FROM jobs_storedbytes WHERE account_id = %(account_id)s), 0)"
# Part of a WITH clause: count the artifacts in the part `stored` for the account of the job in the part `ended`.
ADD = """
    INSERT INTO jobs_storedbytes (account_id, bytes)
    SELECT account_id, sum(stored.bytes)::bigint FROM ended, stored GROUP BY account_id
    ON CONFLICT (account_id) DO UPDATE SET bytes = jobs_storedbytes.bytes + excluded.bytes
"""
LOCK = """
    SELECT FROM jobs_storedbytes
    WHERE account_id IN (SELECT account_id FROM jobs_job WHERE id = ANY (%(jobs)s))
    ORDER BY account_id FOR NO KEY UPDATE
"""
# A count that is too low stays at zero, so that retention goes on; `mend` corrects it.
SUBTRACT = """
    UPDATE jobs_storedbytes AS counted SET bytes = greatest(0, counted.bytes - removed.bytes)
    FROM (
        SELECT account_id, sum(artifact.bytes)::bigint AS bytes
        FROM jobs_job AS job JOIN jobs_artifact AS artifact ON artifact.job_id = job.id
        WHERE job.id = ANY (%(jobs)s) GROUP BY account_id
    ) AS removed
    WHERE removed.account_id = counted.account_id
"""
_PRESENT = """
    SELECT account_id, sum(artifact.bytes)::bigint AS bytes
    FROM jobs_job AS job JOIN jobs_artifact AS artifact ON artifact.job_id = job.id
    WHERE job.cleared_at IS NULL {more} GROUP BY account_id
"""
DISCREPANCIES = f"""
    SELECT account_id, coalesce(counted.bytes, 0), coalesce(present.bytes, 0)
    FROM jobs_storedbytes AS counted FULL JOIN ({_PRESENT.format(more="")}) AS present USING (account_id)
    WHERE coalesce(counted.bytes, 0) <> coalesce(present.bytes, 0) ORDER BY account_id
"""  # noqa: S608 - constants
MEND = f"""
    UPDATE jobs_storedbytes AS counted SET bytes = coalesce(
        (SELECT bytes FROM ({_PRESENT.format(more="AND job.account_id = %(account_id)s")}) AS present), 0
    )
    WHERE account_id = %(account_id)s RETURNING bytes
"""  # noqa: S608 - constants


@dataclass(frozen=True)
class Discrepancy:
    """An account whose counted bytes differ from the sum of its artifacts."""

    account_id: int
    counted: int
    present: int

    def __str__(self) -> str:
        return f"account {self.account_id}: counted {self.counted} bytes, artifacts have {self.present} bytes"


def stored_bytes(account: Account) -> int:
    """Return the bytes of the account's artifacts. One query."""
    return StoredBytes.objects.filter(pk=account.pk).values_list("bytes", flat=True).first() or 0


def subtract(job_ids: Collection[int]) -> None:
    """Subtract the artifacts of jobs that are being cleared, in the transaction that clears them. Two queries."""
    with connection.cursor() as cursor:
        cursor.execute(LOCK, {"jobs": list(job_ids)})
        cursor.execute(SUBTRACT, {"jobs": list(job_ids)})


def subtract_bytes(account_id: int, removed: int) -> None:
    """Subtract the bytes of artifacts that are being removed, in the transaction that removes them. One query."""
    StoredBytes.objects.filter(pk=account_id).update(bytes=Greatest(F("bytes") - removed, 0))


def verify() -> Iterator[Discrepancy]:
    """Yield the accounts whose count is wrong. One query that reads all artifacts."""
    with connection.cursor() as cursor:
        cursor.execute(DISCREPANCIES)
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
        cursor.execute(MEND, {"account_id": account_id})
        ((present,),) = cursor.fetchall()
    return int(present)
