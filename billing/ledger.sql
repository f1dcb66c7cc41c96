-- Credits of jobs. The fragments in this file are the only SQL that writes credits: `ledger` runs them alone, and
-- `jobs` within its own statements. Each statement that changes a balance follows one that locks it. A single
-- statement that waits for the lock would not see changes committed during the wait, and its statement_timestamp()
-- would be too early.

-- name: lock_balance
-- Lock the balance of an account.
SELECT FROM billing_balance WHERE account_id = %(account_id)s FOR NO KEY UPDATE

-- name: lock_payer
-- Lock the balance of the account that pays for a job.
SELECT FROM billing_balance WHERE account_id = (SELECT account_id FROM billing_hold WHERE job_id = %(job_id)s)
FOR NO KEY UPDATE

-- part: spending_order
-- The order in which credits are spent: grants, soonest expiry first, then purchased credits, which have no grant
-- (docs/reference/limits.md#billing). For use in ORDER BY.
expires_at NULLS LAST, grant_id NULLS LAST

-- part: available_credits
-- Parts of a WITH clause that read the available credits of the account in `payer`, which has at most one row and
-- the column account_id. `portion` has the credits of each origin, and `upto` is their number with those of all
-- origins that are spent before. `total` is their number, or 0 if the account has no balance.
portion AS (
    SELECT *, (sum(credits) OVER (ORDER BY {spending_order}))::bigint AS upto FROM (
        SELECT id AS grant_id, remaining AS credits, expires_at
        FROM billing_grant JOIN billing_balance USING (account_id) JOIN payer USING (account_id)
        WHERE remaining > 0 AND (expires_at IS NULL OR expires_at > statement_timestamp())
        UNION ALL
        SELECT NULL, purchased, NULL FROM billing_balance JOIN payer USING (account_id)
    ) AS origin
),
total AS (SELECT coalesce(sum(credits), 0)::bigint AS credits FROM portion)

-- name: read_balances
-- Return the available credits of an account by origin, in spending order, and its reserved credits. The last row is
-- that of purchased credits, and has no grant. Return no row if the account has no balance.
WITH payer AS (SELECT %(account_id)s::bigint AS account_id), {available_credits}
SELECT portion.credits, reserved, grant_id, reason, note, original, portion.expires_at
FROM payer JOIN billing_balance USING (account_id), portion LEFT JOIN billing_grant ON billing_grant.id = grant_id
ORDER BY upto, grant_id NULLS LAST

-- name: count_available_credits
-- Return how many credits new holds can take, by account.
SELECT id, (WITH payer AS (SELECT billing_account.id AS account_id), {available_credits} SELECT credits FROM total)
FROM billing_account WHERE id = ANY (%(account_ids)s)

-- part: taking
-- Parts of a WITH clause that take the credits in `held`, which has at most one row and the columns account_id,
-- job_id and credits, from the portions that come first.
taken AS (
    SELECT grant_id, upto, least(portion.credits, held.credits - (upto - portion.credits)) AS credits
    FROM held, portion WHERE portion.credits > 0 AND upto - portion.credits < held.credits
),
entry AS (
    INSERT INTO billing_entry (account_id, source, target, credits, grant_id, job_id, reason)
    SELECT held.account_id, CASE WHEN grant_id IS NULL THEN 'purchased' ELSE 'grant' END, 'held',
        taken.credits, grant_id, held.job_id, ''
    FROM held, taken ORDER BY upto
),
spent_grant AS (
    UPDATE billing_grant SET remaining = remaining - taken.credits FROM taken WHERE id = taken.grant_id
),
balance AS (
    UPDATE billing_balance SET reserved = reserved + held.credits,
        purchased = purchased - coalesce((SELECT credits FROM taken WHERE grant_id IS NULL), 0)
    FROM held WHERE billing_balance.account_id = held.account_id
)

-- part: holding
-- Parts of a WITH clause that hold credits for the job in `request`, which has at most one row and the columns
-- account_id, job_id, wanted and required. They follow `available_credits`. They hold `wanted` credits or, if fewer
-- are available but at least `required`, all available credits. `held` is the new hold, or empty if too few credits
-- are available.
held AS (
    INSERT INTO billing_hold (job_id, account_id, credits)
    SELECT job_id, account_id, greatest(required, least(wanted, total.credits)) FROM request, total
    WHERE required <= total.credits
    RETURNING job_id, account_id, credits
),
{taking}

-- name: extend_hold
-- Add `amount` to an open hold if the account has enough credits. Return the number of credits that were available,
-- or no row if the hold is missing or resolved, or its account has no balance.
WITH payer AS (
    SELECT account_id FROM billing_hold JOIN billing_balance USING (account_id)
    WHERE job_id = %(job_id)s AND resolved_at IS NULL
), {available_credits}, held AS (
    UPDATE billing_hold SET credits = billing_hold.credits + %(amount)s
    FROM payer, total WHERE job_id = %(job_id)s AND total.credits >= %(amount)s
    RETURNING job_id, billing_hold.account_id, %(amount)s::bigint AS credits
), {taking}
SELECT total.credits FROM total, payer

-- part: is_settlement_possible
-- Whether the hold is open and large enough, and its account has a balance.
EXISTS (
    SELECT FROM billing_hold JOIN billing_balance USING (account_id)
    WHERE job_id = %(job_id)s AND resolved_at IS NULL AND %(spent)s BETWEEN 0 AND credits
)

-- part: returning
-- Parts of a WITH clause that return the credits of the hold in `changed_hold` which are not used. It has at most one
-- row and the columns job_id, account_id, credits, used and is_resolved. Used credits are spent if the hold is resolved;
-- otherwise they stay held. `upto` is the number of held credits of an origin and of all origins that are spent before
-- it. Unused credits return to their origin, unless their grant has expired.
held_entry AS (
    SELECT hold.*, grant_id, CASE WHEN target = 'held' THEN entry.credits ELSE -entry.credits END AS change
    FROM changed_hold AS hold JOIN billing_entry AS entry USING (job_id)
), held_origin AS (
    SELECT job_id, held_entry.account_id, used AS used_in_all, is_resolved, grant_id, sum(change)::bigint AS credits,
        sum(sum(change)) OVER (ORDER BY {spending_order}) AS upto,
        CASE WHEN grant_id IS NULL THEN 'purchased'
            WHEN expires_at <= statement_timestamp() THEN 'expired' ELSE 'grant' END AS returns_to
    FROM held_entry LEFT JOIN billing_grant ON billing_grant.id = grant_id
    GROUP BY job_id, held_entry.account_id, used, is_resolved, grant_id, expires_at
), changed_origin AS (
    SELECT *, least(credits, greatest(0, used_in_all - (upto - credits)))::bigint AS used FROM held_origin
), returning_entry AS (
    INSERT INTO billing_entry (account_id, source, target, credits, grant_id, job_id, reason)
    SELECT account_id, 'held', part.target, part.credits, grant_id, job_id,
        CASE WHEN is_resolved THEN '' ELSE 'paused' END
    FROM changed_origin, LATERAL (VALUES
        (1, 'spent', CASE WHEN is_resolved THEN used ELSE 0 END), (2, returns_to, changed_origin.credits - used)
    ) AS part (place, target, credits)
    WHERE part.credits > 0 ORDER BY upto, place
), returned_grant AS (
    UPDATE billing_grant SET remaining = remaining + credits - used
    FROM changed_origin WHERE billing_grant.id = grant_id AND returns_to = 'grant' AND credits > used
), returned_balance AS (
    UPDATE billing_balance SET reserved = reserved - CASE WHEN is_resolved THEN credits ELSE credits - used END,
        purchased = purchased
            + coalesce((SELECT credits - used FROM changed_origin WHERE returns_to = 'purchased'), 0)
    FROM changed_hold WHERE billing_balance.account_id = changed_hold.account_id
)

-- part: settlement
-- Parts of a WITH clause that settle the job in `settling`, which has at most one row and the column `job_id`.
changed_hold AS (
    UPDATE billing_hold SET spent = %(spent)s, resolved_at = statement_timestamp()
    FROM settling WHERE billing_hold.job_id = settling.job_id
    RETURNING billing_hold.job_id, account_id, credits, spent AS used, true AS is_resolved
), {returning}

-- name: shrink_hold
-- Return all but `keep` credits of an open hold to their origins, unless it has no more.
WITH larger AS (
    SELECT job_id, credits FROM billing_hold JOIN billing_balance USING (account_id)
    WHERE job_id = %(job_id)s AND resolved_at IS NULL AND credits > %(keep)s
), changed_hold AS (
    UPDATE billing_hold SET credits = %(keep)s FROM larger WHERE billing_hold.job_id = larger.job_id
    RETURNING billing_hold.job_id, account_id, larger.credits, billing_hold.credits AS used, false AS is_resolved
), {returning}
SELECT FROM changed_hold
