-- The sweep of the queue.

-- name: idle_state
-- Return whether no unfinished job and no sharded stage is left, and the id of the latest run that has ended. This
-- runs every two seconds even if there is no work. The ORM would need five times the CPU time to run it. The order
-- makes PostgreSQL use the index of active jobs; with EXISTS, PostgreSQL may scan the whole table.
SELECT (
        SELECT id FROM jobs_job WHERE status IN ('pending', 'queued', 'starting', 'running')
        ORDER BY account_id LIMIT 1
    ) IS NULL AND NOT EXISTS (SELECT FROM jobs_shardedstage),
    (SELECT id FROM jobs_run WHERE wall_ms IS NOT NULL ORDER BY id DESC LIMIT 1)
