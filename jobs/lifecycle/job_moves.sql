-- Frequent moves of jobs, and the renewal of leases, each in one round trip. `lifecycle.move` with further queries
-- would have the same results, but would need many round trips.

-- part: lease_end
-- The time at which a lease expires that the statement takes or renews.
statement_timestamp() + %(lease_seconds)s * interval '1 second'

-- part: current_job
-- The job of a sharded stage, if the stage is not void.
JOIN jobs_job AS job ON job.id = stage.job_id AND job.attempt = stage.attempt
    AND job.status IN {claimed}

-- part: paused_lanes
-- The lanes that operators have paused.
SELECT lane FROM jobs_closure WHERE lane IS NOT NULL AND ended_at IS NULL

-- part: is_drained
-- Whether an operator has drained the machine of the worker.
EXISTS (SELECT FROM jobs_closure WHERE host = split_part(%(worker)s, ':', 1) AND ended_at IS NULL)

-- part: may_start
-- Conditions of every claim of a shard, by a helper or the conductor.
job.cancel_requested_at IS NULL AND job.pause_requested_at IS NULL
    AND job.lease_expires_at > statement_timestamp() AND stage.stop_reason = ''

-- part: needs_help
-- Conditions of a claim by a helper. The job must be running, because its conductor has then tested the build. The
-- funds must cover a whole slice, because a smaller rest is kept for running shards.
{may_start} AND job.status = 'running' AND stage.allotted_ms + stage.slice_ms <= stage.funded_ms

-- part: claimable
-- Shards that may be claimed.
jobs_shard.status IN {claim_shard_from} AND losses < {max_losses}

-- name: find_open_stage
-- Return the open stage in a range of lanes with the best priority and, among equals, the earliest submission. An
-- open stage has a waiting shard, a free seat and funds. The first condition is tested before any row is read: without
-- stages, PostgreSQL would often begin with the claimed jobs, and read their dead rows too.
SELECT stage.id, stage.priority FROM jobs_shardedstage AS stage {current_job}
WHERE (SELECT true FROM jobs_shardedstage LIMIT 1) AND {needs_help}
    AND stage.priority BETWEEN %(first_lane)s AND %(last_lane)s AND NOT stage.id = ANY(%(skipped)s::bigint[])
    AND EXISTS (SELECT FROM jobs_shard WHERE stage_id = stage.id AND {claimable} AND number > 0)
    AND (SELECT count(*) FROM jobs_shard WHERE stage_id = stage.id AND status = 'running' AND seat > 0)
        < stage.slots - 1
ORDER BY stage.priority, stage.job_id LIMIT 1

-- part: is_claimable
-- Whether a job may be claimed: `CLAIMABLE` in `jobs/models.py`.
worker = '' AND completed_at IS NULL AND paused_at IS NULL

-- part: returned
-- The id of a waiting job that an earlier attempt returned to the queue; null if there is none. The order makes
-- PostgreSQL use the index of these jobs.
(SELECT id FROM jobs_job WHERE {is_claimable} AND attempt > 0 ORDER BY id LIMIT 1)

-- name: find_first_ids
-- Return for each lane an id below which no job waits for its first attempt. A job with a newer id may not be committed
-- yet, so the id is at least some seconds old.
SELECT lane, least(
    (SELECT id FROM jobs_job WHERE {is_claimable} AND priority BETWEEN lane AND lane ORDER BY priority, id LIMIT 1),
    (extract(epoch FROM statement_timestamp() - %(commit_seconds)s * interval '1 second') * 1000)::bigint * 100000
) FROM unnest(%(lanes)s::integer[]) AS lane

-- name: mark_queued
-- Move a pending job to queued. Return a row if it was moved.
WITH moved AS (
    UPDATE jobs_job SET status = {announce_job_to}, updated_at = statement_timestamp()
    WHERE id = %(job_id)s AND attempt = %(attempt)s AND status IN {announce_job_from} RETURNING id, attempt
)
INSERT INTO jobs_jobevent (job_id, at, from_status, to_status, attempt, reason)
SELECT id, statement_timestamp(), {announce_job_from}, {announce_job_to}, attempt, '' FROM moved RETURNING job_id

-- name: claim_job
-- Claim the best waiting job in a range of lanes, unless a shard comes first, and return its columns.
-- `FOR UPDATE` reads the latest version of a row, and locked rows are skipped, so this never waits.
-- It skips overdue jobs, about 1 µs each, and leaves them to the sweep: ending one here would delay the claim more
-- than skipping thousands.
-- The rows of a paused lane are not even read. A drained machine claims nothing.
-- Each lane is searched from its first id. Otherwise, while a long transaction keeps dead rows from being removed, a
-- claim would read the rows of all jobs that waited since that transaction began, about 1 µs each. The lanes are
-- searched in the order of the array until a job is found.
-- `nullif` hides the branches from the planner, and BETWEEN hides that a lane is a single value: it would expect few
-- rows and sort all waiting jobs, or read the primary key.
-- The update compares with a subquery, because a join could read the whole table if the statistics mislead.
WITH open AS (
    {find_open_stage}
), best AS (
    SELECT first.id, first.status FROM unnest(%(lanes)s::integer[], %(first_ids)s::bigint[]) AS lane (number, first_id)
    CROSS JOIN LATERAL (
        SELECT id, status FROM jobs_job
        WHERE {is_claimable} AND queue_deadline_at > statement_timestamp()
            AND priority BETWEEN lane.number AND lane.number
            AND id >= CASE WHEN {returned} IS NULL THEN lane.first_id ELSE 0 END
            AND nullif(git_branch = ANY(%(skipped_branches)s::text[]), true) IS NOT NULL
        ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED
    ) AS first
    WHERE lane.number <= coalesce((SELECT priority FROM open), %(last_lane)s)
        AND lane.number <> ALL(ARRAY({paused_lanes})) AND NOT {is_drained}
    LIMIT 1
), claimed AS (
    UPDATE jobs_job SET status = {claim_job_to}, attempt = attempt + 1, worker = %(worker)s,
        lease_expires_at = {lease_end}, updated_at = statement_timestamp()
    WHERE id = (SELECT id FROM best) RETURNING {claimed_columns}
), event AS (
    INSERT INTO jobs_jobevent (job_id, at, from_status, to_status, attempt, reason)
    SELECT best.id, statement_timestamp(), best.status, claimed.status, attempt, %(reason)s
    FROM claimed JOIN best USING (id)
)
SELECT * FROM claimed

-- name: lock_sharded_stage
-- Lock a stage's row.
SELECT FROM jobs_shardedstage WHERE id = %(stage_id)s FOR NO KEY UPDATE

-- name: start_run
-- Insert the run of a try unless it exists. The first run moves the job to running. Without shards, `shard_id` is null.
-- The lock prevents the job from ending or being requeued at the same time.
WITH held AS (
    SELECT id, attempt, status FROM jobs_job
    WHERE id = %(job_id)s AND attempt = %(attempt)s AND status IN {claimed}
        AND (%(shard_id)s::bigint IS NULL OR EXISTS (
            SELECT FROM jobs_shard
            WHERE id = %(shard_id)s AND try_number = %(try_number)s AND jobs_shard.status IN {end_shard_from}
        ))
    FOR NO KEY UPDATE
), started AS (
    UPDATE jobs_job SET status = {start_job_to}, build_id = %(build_id)s, started_at = statement_timestamp(),
        updated_at = statement_timestamp()
    WHERE id = (SELECT id FROM held WHERE status IN {start_job_from}) RETURNING id, attempt
), event AS (
    INSERT INTO jobs_jobevent (job_id, at, from_status, to_status, attempt, reason)
    SELECT id, statement_timestamp(), {start_job_from}, {start_job_to}, attempt, '' FROM started
)
INSERT INTO jobs_run (
    job_id, attempt, stage, shard, try_number, seat, build_id, started_at, stopped_for, sandbox_layers
)
SELECT id, attempt, %(stage)s::integer, %(shard)s::integer, %(try_number)s::integer, %(seat)s::integer,
    %(build_id)s::uuid, statement_timestamp(), '', '[]'
FROM held
ON CONFLICT (job_id, attempt, stage, shard, try_number) DO UPDATE SET seat = EXCLUDED.seat
RETURNING id

-- part: run_end
-- Columns of a run whose process has ended, for use in an UPDATE.
ended_at = statement_timestamp(), wall_ms = %(wall_ms)s, cpu_ms = %(cpu_ms)s,
peak_memory_bytes = %(peak_memory_bytes)s, exit_code = %(exit_code)s, stopped_for = %(stopped_for)s,
sandbox_layers = %(layers)s

-- part: lost_run
-- Columns of a run whose end is unknown, because its slot lost it, for use in an UPDATE.
ended_at = statement_timestamp(), stopped_for = 'lost'

-- name: end_lost_runs
-- Record that the unfinished runs of an attempt's own slot are lost. Return their ids.
UPDATE jobs_run SET {lost_run}
WHERE job_id = %(job_id)s AND attempt = %(attempt)s AND seat = 0 AND ended_at IS NULL RETURNING id

-- part: freed
-- Columns of a shard that no slot has, for use in an UPDATE.
seat = NULL, worker = '', lease_expires_at = NULL, allowance_ms = 0

-- name: lock_sharded_stages
-- Lock the rows of a job's stages.
SELECT FROM jobs_shardedstage WHERE job_id = %(job_id)s ORDER BY id FOR NO KEY UPDATE

-- name: return_shards
-- Return the running shards of a job to their stages' queues, and record that its unfinished runs are lost.
WITH before AS (
    SELECT jobs_shard.id, stage_id, jobs_shard.allowance_ms
    FROM jobs_shard JOIN jobs_shardedstage AS stage ON stage.id = stage_id
    WHERE stage.job_id = %(job_id)s AND jobs_shard.status IN {return_shard_from}
), returned AS (
    UPDATE jobs_shard SET status = {return_shard_to}, {freed} FROM before WHERE jobs_shard.id = before.id
), allotted AS (
    UPDATE jobs_shardedstage SET allotted_ms = allotted_ms - given.allowance_ms
    FROM (SELECT stage_id, sum(allowance_ms) AS allowance_ms FROM before GROUP BY stage_id) AS given
    WHERE jobs_shardedstage.id = given.stage_id
)
UPDATE jobs_run SET {lost_run} WHERE job_id = %(job_id)s AND ended_at IS NULL RETURNING id

-- name: end_run
-- Record how a run ended, unless it was already recorded as lost. Return `count` ids for the rows of its artifacts.
WITH ended AS (
    UPDATE jobs_run SET {run_end} WHERE id = %(run_id)s AND ended_at IS NULL
)
SELECT {new_id} FROM generate_series(1, %(count)s::integer)

-- name: renew_lease
-- Renew the lease of a job. If the attempt has the job, return whether its cancellation and its pause were requested.
UPDATE jobs_job SET lease_expires_at = {lease_end}
WHERE id = %(job_id)s AND attempt = %(attempt)s AND status IN {claimed}
RETURNING cancel_requested_at IS NOT NULL, pause_requested_at IS NOT NULL

-- name: lock_job
-- Lock a job's row.
SELECT FROM jobs_job WHERE id = %(job_id)s FOR NO KEY UPDATE

-- name: end_job
-- End a job, and its unfinished runs as lost, if it still has the expected status and attempt and its hold can be
-- settled. Its row and its account's balance must be locked. If it ended, return the seconds since its first simulator
-- started, or null if none did.
WITH ended AS (
    UPDATE jobs_job SET status = %(status)s, error_code = %(error_code)s, status_reason = %(status_reason)s,
        simulator_exit_code = %(exit_code)s, sim_duration_ms = %(sim_duration_ms)s,
        slots_used = %(slots_used)s, credits_consumed = %(spent)s, summary = %(summary)s,
        warnings = %(warnings)s, character = %(character)s, missing_artifacts = %(missing_artifacts)s,
        percent = %(percent)s, worker = '', lease_expires_at = NULL, completed_at = statement_timestamp(),
        updated_at = statement_timestamp()
    WHERE id = %(job_id)s AND status = %(from_status)s AND attempt = %(attempt)s AND {is_settlement_possible}
    RETURNING *
), event AS (
    INSERT INTO jobs_jobevent (job_id, at, from_status, to_status, attempt, reason)
    SELECT id, statement_timestamp(), %(from_status)s, status, attempt, coalesce(status_reason, '') FROM ended
), lost_runs AS (
    UPDATE jobs_run SET {lost_run} FROM ended
    WHERE jobs_run.job_id = ended.id AND jobs_run.ended_at IS NULL
), settling AS (
    SELECT id AS job_id FROM ended
), {settlement}, counted AS (
    {counted_usage}
), notifying AS (
    SELECT id AS job_id, client_id, trace_parent FROM ended WHERE wants_webhook
), notified AS (
    {inserted_event}
), stored AS (
    INSERT INTO jobs_artifact ({artifact_columns})
    SELECT {artifact_values}
    FROM ended, jsonb_populate_recordset(NULL::jobs_artifact, %(artifacts)s::jsonb) AS artifact
    RETURNING bytes
), weighed AS (
    {added_bytes}
), detailed AS (
    INSERT INTO jobs_jobdetails (job_id, version, document)
    SELECT id, %(details_version)s, %(details)s::bytea FROM ended WHERE %(details)s::bytea IS NOT NULL
), ranked AS (
    INSERT INTO jobs_jobranking (job_id, document)
    SELECT id, %(ranking)s::bytea FROM ended WHERE %(ranking)s::bytea IS NOT NULL
)
SELECT extract(epoch FROM completed_at - started_at)::float8 FROM ended
