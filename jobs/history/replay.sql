-- The recorded histories of jobs.

-- name: read_histories
-- Return the histories of the next jobs in a range of ids as JSON, in the order of the ids. One statement, so that it
-- reads all rows at the same moment. The body of a webhook event may be of any version, so its fields can be missing.
WITH batch AS (
    SELECT * FROM jobs_job WHERE id > %(after)s AND id < %(before)s ORDER BY id LIMIT %(count)s
)
SELECT id, json_build_object(
    'now', extract(epoch FROM statement_timestamp()),
    'job', json_build_object(
        'id', id, 'account_id', account_id, 'client_id', client_id, 'priority', priority,
        'git_branch', git_branch, 'status', status, 'attempt', attempt, 'worker', worker,
        'lease_expires_at', extract(epoch FROM lease_expires_at), 'created_at', extract(epoch FROM created_at),
        'started_at', extract(epoch FROM started_at), 'completed_at', extract(epoch FROM completed_at),
        'cancel_requested_at', extract(epoch FROM cancel_requested_at), 'queue_seconds', ceiling_queue_seconds,
        'ceiling_credits', ceiling_credits, 'ceiling_seconds', ceiling_runtime_seconds,
        'fee_credits', priority_fee_credits, 'credits_per_second', credits_per_second,
        'parallel_slots', parallel_slots, 'wants_webhook', wants_webhook, 'build_id', build_id,
        'error_code', error_code, 'sim_ms', sim_duration_ms, 'credits_consumed', credits_consumed
    ),
    'events', (
        SELECT json_agg(each ORDER BY each.id) FROM (
            SELECT id, extract(epoch FROM at) AS at, from_status AS before, to_status AS after, attempt, reason, cause
            FROM jobs_jobevent WHERE job_id = batch.id
        ) AS each
    ),
    'runs', (
        SELECT json_agg(each ORDER BY each.id) FROM (
            SELECT id, attempt, stage, shard, try_number, seat, build_id,
                extract(epoch FROM started_at) AS started_at, extract(epoch FROM ended_at) AS ended_at, wall_ms,
                stopped_for
            FROM jobs_run WHERE job_id = batch.id
        ) AS each
    ),
    'stages', (
        SELECT json_agg(each ORDER BY each.id) FROM (
            SELECT id, attempt, stage, slots, funded_ms, allotted_ms FROM jobs_shardedstage WHERE job_id = batch.id
        ) AS each
    ),
    'shards', (
        SELECT json_agg(each ORDER BY each.id) FROM (
            SELECT shard.id, stage_id, number, status, try_number, seat, worker,
                extract(epoch FROM lease_expires_at) AS lease_expires_at, allowance_ms, billed_ms
            FROM jobs_shardedstage AS stage JOIN jobs_shard AS shard ON stage_id = stage.id
            WHERE stage.job_id = batch.id
        ) AS each
    ),
    'hold', (
        SELECT json_build_object(
            'id', job_id, 'account_id', account_id, 'credits', credits, 'spent', spent,
            'created_at', extract(epoch FROM created_at), 'resolved_at', extract(epoch FROM resolved_at)
        ) FROM billing_hold WHERE job_id = batch.id
    ),
    'entries', (
        SELECT json_agg(each ORDER BY each.id) FROM (
            SELECT id, account_id, extract(epoch FROM at) AS at, source, target, credits
            FROM billing_entry WHERE job_id = batch.id
        ) AS each
    ),
    'artifacts', (
        SELECT json_agg(each ORDER BY each.id) FROM (
            SELECT id, attempt FROM jobs_artifact WHERE job_id = batch.id
        ) AS each
    ),
    'notice', (
        SELECT json_build_object(
            'id', id, 'client_id', client_id, 'created_at', extract(epoch FROM created_at), 'state', state,
            'failure', failure, 'failures', failures, 'body', convert_from(body, 'UTF8')
        ) FROM webhooks_event WHERE job_id = batch.id
    ),
    'deliveries', (
        SELECT json_agg(each ORDER BY each.id) FROM (
            SELECT delivery.id, outcome, extract(epoch FROM started_at) AS started_at, duration_ms
            FROM webhooks_event AS event JOIN webhooks_delivery AS delivery ON event_id = event.id
            WHERE event.job_id = batch.id ORDER BY delivery.id LIMIT %(most_deliveries)s
        ) AS each
    )
)::text
FROM batch ORDER BY id
