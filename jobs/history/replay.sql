-- The recorded histories of jobs.

-- name: read_histories
-- Return the histories of the next jobs in a range of ids as JSON, in the order of the ids. One statement, so that it
-- reads all rows at the same moment. Times are Unix seconds.
WITH batch AS (
    SELECT * FROM jobs_job WHERE id > %(after)s AND id < %(before)s ORDER BY id LIMIT %(count)s
)
SELECT history.id, to_json(history)::text
FROM (
    SELECT id, extract(epoch FROM statement_timestamp()) AS now,
        (
            SELECT to_json(each) FROM (
                SELECT batch.id, account_id, client_id, priority, git_branch, status, attempt, worker,
                    extract(epoch FROM lease_expires_at) AS lease_expires_at,
                    extract(epoch FROM created_at) AS created_at, extract(epoch FROM started_at) AS started_at,
                    extract(epoch FROM completed_at) AS completed_at,
                    extract(epoch FROM cancel_requested_at) AS cancel_requested_at,
                    ceiling_queue_seconds AS queue_seconds, ceiling_credits,
                    ceiling_runtime_seconds AS ceiling_seconds, priority_fee_credits AS fee_credits,
                    credits_per_second, parallel_slots, wants_webhook, build_id, error_code,
                    sim_duration_ms AS sim_ms, credits_consumed
            ) AS each
        ) AS job,
        (
            SELECT json_agg(each ORDER BY each.id) FROM (
                SELECT id, extract(epoch FROM at) AS at, from_status AS before, to_status AS after, attempt, reason,
                    cause
                FROM jobs_jobevent WHERE job_id = batch.id
            ) AS each
        ) AS events,
        (
            SELECT json_agg(each ORDER BY each.id) FROM (
                SELECT id, attempt, stage, shard, try_number, seat, build_id,
                    extract(epoch FROM started_at) AS started_at, extract(epoch FROM ended_at) AS ended_at, wall_ms,
                    stopped_for
                FROM jobs_run WHERE job_id = batch.id
            ) AS each
        ) AS runs,
        (
            SELECT json_agg(each ORDER BY each.id) FROM (
                SELECT id, attempt, stage, slots, funded_ms, allotted_ms
                FROM jobs_shardedstage WHERE job_id = batch.id
            ) AS each
        ) AS stages,
        (
            SELECT json_agg(each ORDER BY each.id) FROM (
                SELECT shard.id, stage_id, number, status, try_number, seat, worker,
                    extract(epoch FROM lease_expires_at) AS lease_expires_at, allowance_ms, billed_ms
                FROM jobs_shardedstage AS stage JOIN jobs_shard AS shard ON stage_id = stage.id
                WHERE stage.job_id = batch.id
            ) AS each
        ) AS shards,
        (
            SELECT to_json(each) FROM (
                SELECT job_id AS id, account_id, credits, spent, extract(epoch FROM created_at) AS created_at,
                    extract(epoch FROM resolved_at) AS resolved_at
                FROM billing_hold WHERE job_id = batch.id
            ) AS each
        ) AS hold,
        (
            SELECT json_agg(each ORDER BY each.id) FROM (
                SELECT id, account_id, extract(epoch FROM at) AS at, source, target, credits
                FROM billing_entry WHERE job_id = batch.id
            ) AS each
        ) AS entries,
        (
            SELECT json_agg(each ORDER BY each.id) FROM (
                SELECT id, attempt FROM jobs_artifact WHERE job_id = batch.id
            ) AS each
        ) AS artifacts,
        (
            SELECT to_json(each) FROM (
                SELECT id, client_id, extract(epoch FROM created_at) AS created_at, state, failure, failures,
                    convert_from(body, 'UTF8') AS body
                FROM webhooks_event WHERE job_id = batch.id
            ) AS each
        ) AS notice,
        (
            SELECT json_agg(each ORDER BY each.id) FROM (
                SELECT delivery.id, outcome, extract(epoch FROM started_at) AS started_at, duration_ms
                FROM webhooks_event AS event JOIN webhooks_delivery AS delivery ON event_id = event.id
                WHERE event.job_id = batch.id ORDER BY delivery.id LIMIT %(most_deliveries)s
            ) AS each
        ) AS deliveries
    FROM batch
) AS history ORDER BY history.id
