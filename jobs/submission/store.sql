-- Storage of accepted jobs.

-- name: lock_account
-- Lock an account, so that its submissions wait for each other. Because this does not lock the key, other
-- transactions, such as settlements, can still insert rows that refer to the account.
SELECT FROM billing_account WHERE id = %(account_id)s FOR NO KEY UPDATE

-- part: account_state
-- The number of unfinished jobs, whether the account is suspended, and the bytes of its files.
({count_active_jobs}) AS active, suspended_at IS NOT NULL AS is_suspended, ({stored_bytes}) AS stored

-- part: is_allowed
-- The rules that the account's state must meet.
active < %(max_active_jobs)s AND NOT is_suspended
AND stored < coalesce(%(max_stored_bytes)s::bigint, stored + 1)

-- name: store_job
-- Store a job unless a rule refuses it. Return the values that the rules check, and whether the job was stored. All
-- times are those of the database's clock, as in claims and in the sweep.
WITH ruling AS (
    SELECT EXISTS (
            SELECT FROM jobs_idempotencykey WHERE api_key_id = %(api_key_id)s AND key = %(key)s
        ) AS is_repeated,
        {account_state}
    FROM billing_account WHERE id = %(account_id)s
),
request AS (
    SELECT %(account_id)s::bigint AS account_id, %(id)s::bigint AS job_id, %(wanted)s::bigint AS wanted,
        %(required)s::bigint AS required
    FROM ruling WHERE NOT is_repeated AND {is_allowed}
),
{holding},
job AS (
    INSERT INTO jobs_job ({columns}, created_at, updated_at, queue_deadline_at)
    SELECT {values}, statement_timestamp(), statement_timestamp(),
        statement_timestamp() + %(ceiling_queue_seconds)s::int * interval '1 second'
    FROM held
),
profile AS (INSERT INTO jobs_jobprofile (job_id, text) SELECT job_id, %(profile_text)s FROM held),
event AS (
    INSERT INTO jobs_jobevent (job_id, at, from_status, to_status, attempt, reason)
    SELECT job_id, statement_timestamp(), '', %(status)s, 0, '' FROM held
),
idempotency_key AS (
    INSERT INTO jobs_idempotencykey (api_key_id, key, fingerprint, job_id, response)
    SELECT %(api_key_id)s, %(key)s, %(fingerprint)s, job_id, %(response)s FROM held WHERE %(key)s IS NOT NULL
)
SELECT is_repeated, active, is_suspended, stored, (SELECT credits::bigint FROM total), EXISTS (SELECT FROM held)
FROM ruling

-- name: try_job
-- Return the values that the rules check, and whether a job without an idempotency key would be stored. Only reads.
WITH ruling AS (SELECT {account_state} FROM billing_account WHERE id = %(account_id)s), {available_credits}
SELECT false, active, is_suspended, stored, credits::bigint, {is_allowed} AND credits >= %(required)s::bigint
FROM ruling, total
