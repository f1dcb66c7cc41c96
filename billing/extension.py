"""SQL that extends a job's hold, for `billing/ledger.py`. `settlement.LOCK` must precede it.

The parameters are `job_id` and `amount`.
"""

from simservice.statements import Statement

# Add `amount` to an open hold if the account has enough. Return the credits that were available, or no row if the
# hold is missing or resolved, or its account has no balance. `upto` is the number of available credits of an origin
# and of all origins that are spent before it (docs/reference/contract.md#billing).
EXTEND = Statement(
    "extend_hold",
    """
    WITH open_hold AS (
        SELECT job_id, account_id FROM billing_hold JOIN billing_balance USING (account_id)
        WHERE job_id = %(job_id)s AND resolved_at IS NULL
    ), origin AS (
        SELECT id AS grant_id, 'grant' AS source, remaining AS credits, expires_at
        FROM billing_grant JOIN open_hold USING (account_id)
        WHERE remaining > 0 AND (expires_at IS NULL OR expires_at > (SELECT clock_timestamp()))
        UNION ALL
        SELECT NULL, 'purchased', purchased, NULL FROM billing_balance JOIN open_hold USING (account_id)
    ), available AS (
        SELECT sum(credits)::bigint AS credits FROM origin
    ), ordered AS (
        SELECT *, sum(credits) OVER (ORDER BY expires_at NULLS LAST, grant_id NULLS LAST) AS upto FROM origin
    ), portion AS (
        SELECT grant_id, source, upto,
            least(ordered.credits, %(amount)s::bigint - (upto - ordered.credits))::bigint AS credits
        FROM ordered, available
        WHERE available.credits >= %(amount)s AND upto - ordered.credits < %(amount)s AND ordered.credits > 0
    ), extended AS (
        UPDATE billing_hold SET credits = billing_hold.credits + %(amount)s
        FROM open_hold, available
        WHERE billing_hold.job_id = open_hold.job_id AND available.credits >= %(amount)s
    ), entry AS (
        INSERT INTO billing_entry (account_id, source, target, credits, grant_id, job_id, reason)
        SELECT account_id, source, 'held', credits, grant_id, job_id, '' FROM portion, open_hold ORDER BY upto
    ), spent_grant AS (
        UPDATE billing_grant SET remaining = remaining - credits FROM portion WHERE id = grant_id
    ), balance AS (
        UPDATE billing_balance SET reserved = reserved + %(amount)s,
            purchased = purchased - coalesce((SELECT credits FROM portion WHERE source = 'purchased'), 0)
        FROM open_hold, available
        WHERE billing_balance.account_id = open_hold.account_id AND available.credits >= %(amount)s
    )
    SELECT available.credits FROM available, open_hold
    """,
)
