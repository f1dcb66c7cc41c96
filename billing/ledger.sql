-- Holds of credits. Each statement that changes a balance follows one that locks it. A single statement that waits
-- for the lock would not see changes committed during the wait, and its statement_timestamp() would be too early.

-- name: lock_balance
-- Lock the balance of an account.
SELECT FROM billing_balance WHERE account_id = %(account_id)s FOR NO KEY UPDATE

-- name: lock_payer
-- Lock the balance of the account that pays for a job.
SELECT FROM billing_balance WHERE account_id = (SELECT account_id FROM billing_hold WHERE job_id = %(job_id)s)
FOR NO KEY UPDATE

-- part: available_credits
-- Parts of a WITH clause that count an account's available credits. `total` is their number, or 0 if the account
-- has no balance.
portion AS (
    SELECT id AS grant_id, remaining AS credits, row_number() OVER (ORDER BY expires_at NULLS LAST, id) AS place
    FROM billing_grant JOIN billing_balance USING (account_id)
    WHERE account_id = %(account_id)s AND remaining > 0
        AND (expires_at IS NULL OR expires_at > statement_timestamp())
    UNION ALL
    SELECT NULL, purchased, NULL FROM billing_balance WHERE account_id = %(account_id)s
),
total AS (SELECT coalesce(sum(credits), 0) AS credits FROM portion)

-- part: holding
-- Parts of a WITH clause that hold credits for the job in `request`, which has at most one row and the columns
-- account_id, job_id, wanted and required. They hold `wanted` credits or, if fewer are available but at least
-- `required`, all available credits. `held` is the new hold, or empty if too few credits are available. Credits are
-- taken from grants, soonest expiry first, then from purchased credits (docs/reference/limits.md#billing).
{available_credits},
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

-- name: hold_credits
-- Hold credits for a job. Return the number of available credits, and whether the credits were held.
WITH request AS (
    SELECT %(account_id)s::bigint AS account_id, %(job_id)s::bigint AS job_id, %(wanted)s::bigint AS wanted,
        %(required)s::bigint AS required
), {holding}
SELECT (SELECT credits::bigint FROM total), EXISTS (SELECT FROM held)

-- name: extend_hold
-- Add `amount` to an open hold if the account has enough credits. Return the number of credits that were available,
-- or no row if the hold is missing or resolved, or its account has no balance. `upto` is the number of available
-- credits of an origin and of all origins that are spent before it (docs/reference/limits.md#billing).
WITH open_hold AS (
    SELECT job_id, account_id FROM billing_hold JOIN billing_balance USING (account_id)
    WHERE job_id = %(job_id)s AND resolved_at IS NULL
), origin AS (
    SELECT id AS grant_id, 'grant' AS source, remaining AS credits, expires_at
    FROM billing_grant JOIN open_hold USING (account_id)
    WHERE remaining > 0 AND (expires_at IS NULL OR expires_at > statement_timestamp())
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

-- part: is_settlement_possible
-- Whether the hold is open and large enough, and its account has a balance.
EXISTS (
    SELECT FROM billing_hold JOIN billing_balance USING (account_id)
    WHERE job_id = %(job_id)s AND resolved_at IS NULL AND credits >= %(spent)s
)

-- part: settlement
-- Parts of a WITH clause that settle the job in `settling`, which has at most one row and the column `job_id`.
-- `upto` is the number of held credits of an origin and of all origins that are spent before it: grants, soonest
-- expiry first, then purchased credits (docs/reference/limits.md#billing). Unused credits return to their origin,
-- unless their grant has expired.
settled_hold AS (
    UPDATE billing_hold SET spent = %(spent)s, resolved_at = statement_timestamp()
    FROM settling WHERE billing_hold.job_id = settling.job_id
    RETURNING billing_hold.job_id, account_id, credits, spent
), held_origin AS (
    SELECT job_id, hold.account_id, hold.spent, entry.grant_id, sum(entry.credits)::bigint AS credits,
        sum(sum(entry.credits)) OVER (ORDER BY expires_at NULLS LAST, entry.grant_id NULLS LAST) AS upto,
        CASE WHEN entry.grant_id IS NULL THEN 'purchased'
            WHEN expires_at <= statement_timestamp() THEN 'expired' ELSE 'grant' END AS returns_to
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

-- name: settle_hold
-- Charge `spent` credits to a job's hold and release the rest. Return a row if the hold was settled.
WITH settling AS (
    SELECT %(job_id)s::bigint AS job_id WHERE %(spent)s::bigint >= 0 AND {is_settlement_possible}
), {settlement}
SELECT FROM settling
