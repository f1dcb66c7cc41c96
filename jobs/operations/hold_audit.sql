-- Comparison of jobs with the holds in the ledger.

-- name: hold_discrepancies
-- Return a sentence for each job that does not match its hold. One statement, so that it reads jobs and holds at
-- the same moment. A resolved hold can outlive its job.
SELECT sentence FROM (
    SELECT CASE
        WHEN hold.job_id IS NULL AND job.completed_at IS NULL
            THEN 'job ' || job.id || ' has not ended, but has no hold'
        WHEN job.id IS NULL AND hold.resolved_at IS NULL
            THEN 'job ' || hold.job_id || ' does not exist, but its hold is open'
        WHEN hold.account_id <> job.account_id
            THEN 'the hold of job ' || job.id || ' belongs to another account'
        WHEN job.completed_at IS NULL AND hold.resolved_at IS NOT NULL
            THEN 'job ' || job.id || ' has not ended, but its hold is resolved'
        WHEN job.completed_at IS NOT NULL AND hold.resolved_at IS NULL AND hold.job_id IS NOT NULL
            THEN 'job ' || job.id || ' has ended, but its hold is open'
        WHEN hold.spent <> job.credits_consumed
            THEN 'job ' || job.id || ' consumed ' || job.credits_consumed || ' credits, but paid ' || hold.spent
    END AS sentence
    FROM jobs_job AS job FULL JOIN billing_hold AS hold ON hold.job_id = job.id
) AS compared WHERE sentence IS NOT NULL
