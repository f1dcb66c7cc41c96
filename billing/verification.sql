-- Verification of the ledger.

-- name: ledger_discrepancies
-- Return the stored numbers that differ from the sums of the entries: a description, the number and the sum. One
-- statement, so that it reads one consistent state during other writes.
WITH sides AS (
    SELECT account_id, source AS pocket, grant_id, job_id, -credits AS credits, reason FROM billing_entry
    UNION ALL
    SELECT account_id, target, grant_id, job_id, credits, reason FROM billing_entry
), customers AS (
    SELECT account_id,
        coalesce(sum(credits) FILTER (WHERE pocket = 'purchased'), 0) AS purchased,
        coalesce(sum(credits) FILTER (WHERE pocket = 'held'), 0) AS held
    FROM sides GROUP BY account_id
), grants AS (
    SELECT grant_id,
        coalesce(sum(credits) FILTER (WHERE pocket = 'grant'), 0) AS remaining,
        coalesce(-sum(credits) FILTER (WHERE pocket = 'outside' AND credits < 0), 0) AS original
    FROM sides WHERE grant_id IS NOT NULL GROUP BY grant_id
), holds AS (
    SELECT job_id,
        coalesce(sum(credits) FILTER (WHERE pocket = 'held'), 0) AS open,
        -- Without the credits that a pause returned
        coalesce(sum(credits) FILTER (WHERE pocket = 'held' AND (credits > 0 OR reason = 'paused')), 0) AS credits,
        coalesce(sum(credits) FILTER (WHERE pocket = 'spent'), 0) AS spent
    FROM sides WHERE job_id IS NOT NULL GROUP BY job_id
), origins AS (
    SELECT job_id, grant_id, sum(credits) AS open
    FROM sides WHERE pocket = 'held' GROUP BY job_id, grant_id
)
SELECT 'purchased credits of account ' || account_id, stored.purchased, booked.purchased
    FROM billing_balance AS stored FULL JOIN customers AS booked USING (account_id)
    WHERE coalesce(stored.purchased, 0) <> coalesce(booked.purchased, 0)
UNION ALL
SELECT 'reserved credits of account ' || account_id, stored.reserved, booked.held
    FROM billing_balance AS stored FULL JOIN customers AS booked USING (account_id)
    WHERE coalesce(stored.reserved, 0) <> coalesce(booked.held, 0)
UNION ALL
SELECT 'remaining credits of grant ' || stored.id, stored.remaining, booked.remaining
    FROM billing_grant AS stored LEFT JOIN grants AS booked ON booked.grant_id = stored.id
    WHERE stored.remaining <> coalesce(booked.remaining, 0)
UNION ALL
SELECT 'original credits of grant ' || stored.id, stored.original, booked.original
    FROM billing_grant AS stored LEFT JOIN grants AS booked ON booked.grant_id = stored.id
    WHERE stored.original <> coalesce(booked.original, 0)
UNION ALL
SELECT 'total credits held for job ' || job_id, stored.credits, booked.credits
    FROM billing_hold AS stored FULL JOIN holds AS booked USING (job_id)
    WHERE coalesce(stored.credits, 0) <> coalesce(booked.credits, 0)
UNION ALL
SELECT 'credits still held for job ' || job_id,
        CASE WHEN stored.resolved_at IS NULL THEN stored.credits ELSE 0 END, booked.open
    FROM billing_hold AS stored JOIN holds AS booked USING (job_id)
    WHERE booked.open <> CASE WHEN stored.resolved_at IS NULL THEN stored.credits ELSE 0 END
UNION ALL
SELECT 'credits spent on job ' || job_id, stored.spent, booked.spent
    FROM billing_hold AS stored JOIN holds AS booked USING (job_id)
    WHERE coalesce(stored.spent, 0) <> booked.spent
UNION ALL
SELECT 'credits still held for job ' || job_id || ' from '
        || coalesce('grant ' || origins.grant_id, 'purchased credits'), NULL, origins.open
    FROM origins JOIN billing_hold AS stored USING (job_id)
    WHERE origins.open < 0 OR (stored.resolved_at IS NOT NULL AND origins.open <> 0)
UNION ALL
SELECT 'account of entry ' || entry.id, coalesce(origin.account_id, stored.account_id), entry.account_id
    FROM billing_entry AS entry
    LEFT JOIN billing_grant AS origin ON origin.id = entry.grant_id
    LEFT JOIN billing_hold AS stored ON stored.job_id = entry.job_id
    WHERE entry.account_id <> coalesce(origin.account_id, entry.account_id)
        OR entry.account_id <> coalesce(stored.account_id, entry.account_id)
