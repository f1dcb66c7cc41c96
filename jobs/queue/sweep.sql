-- The sweep of the queue.

-- name: idle_state
-- Return whether there are neither unfinished jobs nor sharded stages, the id of the latest run that has ended, the
-- lanes that are paused, and the hosts that are drained.
-- This runs every two seconds, even if there is no work, and would take five times the CPU time with the ORM.
-- The order makes PostgreSQL use the index of active jobs. With EXISTS, it may scan the whole table.
SELECT (
        SELECT id FROM jobs_job WHERE status IN {active}
        ORDER BY account_id LIMIT 1
    ) IS NULL AND NOT EXISTS (SELECT FROM jobs_shardedstage),
    (SELECT id FROM jobs_run WHERE wall_ms IS NOT NULL ORDER BY id DESC LIMIT 1),
    ARRAY(SELECT lane FROM jobs_closure WHERE lane IS NOT NULL AND ended_at IS NULL),
    ARRAY(SELECT host FROM jobs_closure WHERE lane IS NULL AND ended_at IS NULL)

-- name: shorten_leases
-- Shorten the leases that end later than any renewal can have set: PostgreSQL's clock was set back. Their owners
-- renew them; those of dead workers expire in time. Rows that are locked are left to the next sweep.
WITH late_job AS (
    SELECT id FROM jobs_job
    WHERE status IN {claimed} AND lease_expires_at > statement_timestamp() + 2 * %(lease_seconds)s * interval '1 s'
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
), job AS (
    UPDATE jobs_job SET lease_expires_at = {lease_end} FROM late_job WHERE jobs_job.id = late_job.id
    RETURNING jobs_job.id
), late_shard AS (
    SELECT id FROM jobs_shard
    WHERE status = 'running' AND lease_expires_at > statement_timestamp() + 2 * %(lease_seconds)s * interval '1 s'
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
), shard AS (
    UPDATE jobs_shard SET lease_expires_at = {lease_end} FROM late_shard WHERE jobs_shard.id = late_shard.id
    RETURNING jobs_shard.id
)
SELECT (SELECT count(*) FROM job) + (SELECT count(*) FROM shard)
