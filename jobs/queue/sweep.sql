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
