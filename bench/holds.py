"""Holds and settlements without their jobs, from the fragments of `billing/ledger.sql`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from billing.models import Account

REQUEST = """
    payer AS (SELECT %(account_id)s::bigint AS account_id),
    request AS (
        SELECT account_id, %(job_id)s::bigint AS job_id, %(amount)s::bigint AS wanted,
            %(amount)s::bigint AS required
        FROM payer
    )
"""


def hold(account: "Account", amount: int, *, job_id: int) -> None:
    """Hold credits. One round trip."""
    from billing.ledger import SQL
    from simservice.postgresql.statements import run

    statement = f"WITH {REQUEST}, {SQL['available_credits']}, {SQL['holding']} SELECT FROM held"
    values = {"account_id": account.pk, "job_id": job_id, "amount": amount}
    assert run(SQL["lock_balance"], statement, values=values)


def settle(job_id: int, *, spent: int) -> None:
    """Charge some credits of a hold, and return the others. One round trip."""
    from billing.ledger import SQL
    from simservice.postgresql.statements import run

    settling = f"settling AS (SELECT %(job_id)s::bigint AS job_id WHERE {SQL['is_settlement_possible']})"
    statement = f"WITH {settling}, {SQL['settlement']} SELECT FROM settling"
    assert run(SQL["lock_payer"], statement, values={"job_id": job_id, "spent": spent})
