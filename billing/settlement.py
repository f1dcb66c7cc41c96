"""SQL that resolves a job's hold, used by `billing/ledger.py` and by the statement that ends a job.

The account's balance must be locked by an earlier statement, because a statement that waits for a lock does not see
changes that are committed during its wait. The parameters are `job_id` and `spent`.
"""

from simservice.statements import Statement

# Lock the balance of the account that pays for the job.
LOCK = Statement(
    "lock_payer",
    """
    SELECT FROM billing_balance WHERE account_id = (SELECT account_id FROM billing_hold WHERE job_id = %(job_id)s)
    FOR NO KEY UPDATE
    """,
)

# Whether the hold is open and large enough, and its account has a balance.
IS_POSSIBLE = """
    EXISTS (
        SELECT FROM billing_hold JOIN billing_balance USING (account_id)
        WHERE job_id = %(job_id)s AND resolved_at IS NULL AND credits >= %(spent)s
    )
"""

# Parts of a WITH clause that settle the job in `settling`, which has at most one row and the column `job_id`.
#
# `upto` is the number of held credits of an origin and of all origins that are spent before it: grants by expiry,
# soonest first, then purchased credits (docs/reference/contract.md#billing). Unused credits return to their origin,
# but unused credits of an expired grant are lost.
PARTS = """
    settled_hold AS (
        UPDATE billing_hold SET spent = %(spent)s, resolved_at = statement_timestamp()
        FROM settling WHERE billing_hold.job_id = settling.job_id
        RETURNING billing_hold.job_id, account_id, credits, spent
    ), held_origin AS (
        SELECT job_id, hold.account_id, hold.spent, entry.grant_id, sum(entry.credits)::bigint AS credits,
            sum(sum(entry.credits)) OVER (ORDER BY expires_at NULLS LAST, entry.grant_id NULLS LAST) AS upto,
            CASE WHEN entry.grant_id IS NULL THEN 'purchased'
                WHEN expires_at <= (SELECT clock_timestamp()) THEN 'expired' ELSE 'grant' END AS returns_to
        FROM settled_hold AS hold
        JOIN billing_entry AS entry USING (job_id)
        LEFT JOIN billing_grant ON billing_grant.id = entry.grant_id
        WHERE entry.target = 'held'
        GROUP BY job_id, hold.account_id, hold.spent, entry.grant_id, expires_at
    ), settled_origin AS (
        SELECT *, least(credits, greatest(0, spent - (upto - credits)))::bigint AS used FROM held_origin
    ), settling_entry AS (
        INSERT INTO billing_entry (account_id, source, target, credits, grant_id, job_id, reason)
        SELECT account_id, 'held', part.target, part.credits, grant_id, job_id, ''
        FROM settled_origin, LATERAL (VALUES
            (1, 'spent', used), (2, returns_to, settled_origin.credits - used)
        ) AS part (place, target, credits)
        WHERE part.credits > 0 ORDER BY upto, place
    ), returned_grant AS (
        UPDATE billing_grant SET remaining = remaining + credits - used
        FROM settled_origin WHERE billing_grant.id = grant_id AND returns_to = 'grant' AND credits > used
    ), settled_balance AS (
        UPDATE billing_balance SET reserved = reserved - credits,
            purchased = purchased
                + coalesce((SELECT credits - used FROM settled_origin WHERE returns_to = 'purchased'), 0)
        FROM settled_hold WHERE billing_balance.account_id = settled_hold.account_id
    )
"""

SETTLE = Statement(
    "settle_hold",
    f"""
    WITH settling AS (SELECT %(job_id)s::bigint AS job_id WHERE %(spent)s::bigint >= 0 AND {IS_POSSIBLE}), {PARTS}
    SELECT FROM settling
    """,  # noqa: S608 - constants
)
