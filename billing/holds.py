"""SQL that holds credits for a new job, used by `billing/ledger.py` and `jobs/submission/store.py`.

The account's balance must be locked by an earlier statement, because a statement that waits for a lock does not see
changes that are committed during its wait.
"""

from simservice.statements import Statement

# Lock the balance of the account.
LOCK = Statement("lock_balance", "SELECT FROM billing_balance WHERE account_id = %(account_id)s FOR NO KEY UPDATE")

# Parts of a WITH clause that count an account's available credits. `total` is their number, 0 for an account
# without a balance.
AVAILABLE = """
    portion AS (
        SELECT id AS grant_id, remaining AS credits, row_number() OVER (ORDER BY expires_at NULLS LAST, id) AS place
        FROM billing_grant JOIN billing_balance USING (account_id)
        WHERE account_id = %(account_id)s AND remaining > 0
            -- After the lock; statement_timestamp() may be earlier
            AND (expires_at IS NULL OR expires_at > clock_timestamp())
        UNION ALL
        SELECT NULL, purchased, NULL FROM billing_balance WHERE account_id = %(account_id)s
    ),
    total AS (SELECT coalesce(sum(credits), 0) AS credits FROM portion)
"""
# Parts of a WITH clause that hold credits for the job in `request`, which has at most one row and the columns
# account_id, job_id, wanted and required. They hold `wanted` credits or, if fewer are available but at least
# `required`, all available credits. `held` is the new hold, empty if too few credits are available. Credits are
# taken from grants by expiry, soonest first, then from purchased credits (docs/reference/contract.md#billing).
PARTS = f"""
    {AVAILABLE},
    held AS (
        INSERT INTO billing_hold (job_id, account_id, credits)
        SELECT job_id, account_id, greatest(required, least(wanted, total.credits)) FROM request, total
        WHERE greatest(required, least(wanted, total.credits)) <= total.credits
        RETURNING job_id, account_id, credits
    ),
    taken AS (
        SELECT grant_id, place, least(portion.credits, held.credits - portion.before) AS credits
        FROM held, (
            SELECT *, sum(credits) OVER (ORDER BY place NULLS LAST) - credits AS before FROM portion
        ) AS portion
        WHERE portion.credits > 0 AND portion.before < held.credits
    ),
    entry AS (
        INSERT INTO billing_entry (account_id, source, target, credits, grant_id, job_id, reason)
        SELECT held.account_id, CASE WHEN grant_id IS NULL THEN 'purchased' ELSE 'grant' END, 'held',
            taken.credits, grant_id, held.job_id, ''
        FROM held, taken ORDER BY place NULLS LAST
    ),
    spent_grant AS (
        UPDATE billing_grant SET remaining = remaining - taken.credits FROM taken WHERE id = taken.grant_id
    ),
    balance AS (
        UPDATE billing_balance SET reserved = reserved + held.credits,
            purchased = purchased - coalesce((SELECT credits FROM taken WHERE grant_id IS NULL), 0)
        FROM held WHERE billing_balance.account_id = held.account_id
    )
"""  # noqa: S608 - constants of this module
# Hold credits for a job. Returns the number of available credits, and whether the credits were held.
HOLD = Statement(
    "hold_credits",
    f"""
    WITH request AS (
        SELECT %(account_id)s::bigint AS account_id, %(job_id)s::bigint AS job_id, %(wanted)s::bigint AS wanted,
            %(required)s::bigint AS required
    ), {PARTS}
    SELECT (SELECT credits::bigint FROM total), EXISTS (SELECT FROM held)
    """,  # noqa: S608 - constants of this module
)
