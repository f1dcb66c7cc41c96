-- Storage of accepted jobs.

-- name: lock_account
-- Lock an account, so that its submissions wait for each other. Because this does not lock the key, other
-- transactions, such as settlements, can still insert rows that refer to the account.
SELECT FROM billing_account WHERE id = %(account_id)s FOR NO KEY UPDATE

-- part: broken_rule
-- The first rule that refuses the job, or null: the names and the order of `Rule` in `store.py`.
CASE WHEN is_repeated THEN 'repeated'
    WHEN active >= %(max_active_jobs)s THEN 'active_jobs'
    WHEN is_suspended THEN 'suspended'
    WHEN stored_bytes >= %(max_stored_bytes)s::bigint THEN 'stored_bytes'
    WHEN available_credits < %(required)s::bigint THEN 'credits'
END

-- part: account_state
-- The number of unfinished jobs, whether the account is suspended, the bytes of its files, and its available credits.
({count_active_jobs}) AS active, suspended_at IS NOT NULL AS is_suspended, ({stored_bytes}) AS stored_bytes,
total.credits AS available_credits

-- name: store_job
-- Store a job unless a rule refuses it. Return the name of the rule, null if the job was stored, and the values that
-- the rules check. All times are those of the database's clock, as in claims and in the sweep.
WITH payer AS (SELECT %(account_id)s::bigint AS account_id), {available_credits},
state AS (
    SELECT EXISTS (
            SELECT FROM jobs_idempotencykey WHERE api_key_id = %(api_key_id)s AND key = %(key)s
        ) AS is_repeated,
        {account_state}
    FROM billing_account, total WHERE id = %(account_id)s
),
checked AS (SELECT {broken_rule} AS broken_rule, active, stored_bytes, available_credits FROM state),
request AS (
    SELECT %(account_id)s::bigint AS account_id, %(id)s::bigint AS job_id, %(wanted)s::bigint AS wanted,
        %(required)s::bigint AS required
    FROM checked WHERE broken_rule IS NULL
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
SELECT * FROM checked

-- name: check_job
-- Return what `store_job` would return for a job without an idempotency key. Only reads.
WITH payer AS (SELECT %(account_id)s::bigint AS account_id), {available_credits}, state AS (
    SELECT false AS is_repeated, {account_state} FROM billing_account, total WHERE id = %(account_id)s
)
SELECT {broken_rule}, active, stored_bytes, available_credits FROM state
