-- The bytes of each account's artifacts.

-- part: stored_bytes
-- The number of bytes of an account's artifacts.
coalesce((SELECT bytes FROM jobs_storedbytes WHERE account_id = %(account_id)s), 0)

-- part: added_bytes
-- Count the artifacts in the part `stored` for the account of the job in the part `ended`.
INSERT INTO jobs_storedbytes (account_id, bytes)
SELECT account_id, sum(stored.bytes)::bigint FROM ended, stored GROUP BY account_id
ON CONFLICT (account_id) DO UPDATE SET bytes = jobs_storedbytes.bytes + excluded.bytes

-- name: lock_stored_bytes
-- Lock the counts of the accounts that own the jobs, in the order of the accounts' ids.
SELECT FROM jobs_storedbytes
WHERE account_id IN (SELECT account_id FROM jobs_job WHERE id = ANY (%(jobs)s))
ORDER BY account_id FOR NO KEY UPDATE

-- name: subtract_stored_bytes
-- Subtract the artifacts of jobs. A count that is too low ends at zero, so that retention can continue; `mend`
-- corrects it.
UPDATE jobs_storedbytes AS counted SET bytes = greatest(0, counted.bytes - removed.bytes)
FROM (
    SELECT account_id, sum(artifact.bytes)::bigint AS bytes
    FROM jobs_job AS job JOIN jobs_artifact AS artifact ON artifact.job_id = job.id
    WHERE job.id = ANY (%(jobs)s) GROUP BY account_id
) AS removed
WHERE removed.account_id = counted.account_id

-- name: stored_bytes_discrepancies
-- Return the accounts whose count differs from the sum of their artifacts. Reads all artifacts.
SELECT account_id, coalesce(counted.bytes, 0), coalesce(present.bytes, 0)
FROM jobs_storedbytes AS counted FULL JOIN (
    SELECT account_id, sum(artifact.bytes)::bigint AS bytes
    FROM jobs_job AS job JOIN jobs_artifact AS artifact ON artifact.job_id = job.id
    WHERE job.cleared_at IS NULL GROUP BY account_id
) AS present USING (account_id)
WHERE coalesce(counted.bytes, 0) <> coalesce(present.bytes, 0) ORDER BY account_id

-- name: mend_stored_bytes
-- Replace an account's count with the sum of its artifacts, and return the sum.
UPDATE jobs_storedbytes SET bytes = coalesce(
    (
        SELECT sum(artifact.bytes)::bigint
        FROM jobs_job AS job JOIN jobs_artifact AS artifact ON artifact.job_id = job.id
        WHERE job.cleared_at IS NULL AND job.account_id = %(account_id)s
    ), 0
)
WHERE account_id = %(account_id)s RETURNING bytes
