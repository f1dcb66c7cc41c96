-- Moves of shards. A statement that changes a shard follows `lock_sharded_stage`, so the moves of a stage happen
-- one after the other, and each sees the previous one. Whether a stage is void is read from its job, without a lock
-- unless a shard ends. If the job ends at the same moment, the move does no harm, because nothing reads the shards of
-- an ended job. `attempt` is that of the conductor: an earlier one changes nothing once another has adopted the stage.

-- name: claim_shard
-- Start a try of the stage's first waiting shard. `attempt` is null for a helper. The slot that has the job has seat 0,
-- may use less than a slice, and may run shard 0. A helper's shard comes after waiting jobs of the same or a better
-- priority in the helper's lanes, unless these are paused. A drained machine does not help.
WITH open AS (
    SELECT least(stage.slice_ms, stage.funded_ms - stage.allotted_ms) AS allowance_ms,
        CASE WHEN %(attempt)s::integer IS NOT NULL THEN 0 ELSE (
            SELECT min(free) FROM generate_series(1, stage.slots - 1) AS free
            WHERE NOT EXISTS (
                SELECT FROM jobs_shard WHERE stage_id = stage.id AND status = 'running' AND seat = free
            )
        ) END AS seat
    FROM jobs_shardedstage AS stage {current_job}
    WHERE stage.id = %(stage_id)s AND CASE
        WHEN %(attempt)s::integer IS NOT NULL
        THEN stage.attempt = %(attempt)s::integer AND {may_start} AND stage.allotted_ms < stage.funded_ms
        ELSE {needs_help} AND NOT {is_drained} AND NOT EXISTS (
            SELECT FROM jobs_job WHERE {is_claimable} AND priority = ANY(ARRAY(
                SELECT generate_series(%(first_lane)s::int, stage.priority) EXCEPT {paused_lanes}
            )) AND queue_deadline_at > statement_timestamp()
        )
    END
), best AS (
    SELECT id FROM jobs_shard
    WHERE stage_id = %(stage_id)s AND {claimable} AND (%(attempt)s::integer IS NOT NULL OR number > 0)
    ORDER BY number LIMIT 1
), claimed AS (
    UPDATE jobs_shard SET status = {claim_shard_to}, try_number = try_number + 1, seat = open.seat,
        worker = %(worker)s, lease_expires_at = {lease_end}, allowance_ms = open.allowance_ms
    FROM open, best WHERE jobs_shard.id = best.id AND open.seat IS NOT NULL
    RETURNING jobs_shard.id, stage_id, number, try_number, jobs_shard.seat, jobs_shard.allowance_ms, text,
        profilesets, full_baseline
), allotted AS (
    UPDATE jobs_shardedstage SET allotted_ms = allotted_ms + claimed.allowance_ms
    FROM claimed WHERE jobs_shardedstage.id = claimed.stage_id
)
SELECT * FROM claimed

-- part: shard_before
-- Part of a WITH clause: the shard as it is before the move.
before AS (SELECT id, stage_id, number, seat, allowance_ms, billed_ms FROM jobs_shard WHERE id = %(shard_id)s)

-- part: live_job
-- The job of the running shard `before`, if the try may go on. A helper's may while the job waits for its next attempt,
-- unless it is paused; that of the conductor ends with the attempt.
JOIN jobs_job AS job ON job.id = stage.job_id AND job.status IN {active} AND job.paused_at IS NULL
    AND (before.seat > 0 OR (job.attempt = stage.attempt AND job.status IN {claimed}))

-- name: renew_shard
-- Renew the lease of a running shard and extend its allowance by `wanted_ms`, or by the time that is left. Return
-- the allowance, the time left for the stage, whether cancellation was requested, and why the shard must stop.
WITH {shard_before}, open AS (
    SELECT stage.id, stage.stop_reason, job.cancel_requested_at IS NOT NULL AS is_cancelled,
        stage.funded_ms - stage.allotted_ms AS free_ms,
        least(%(wanted_ms)s, stage.funded_ms - stage.allotted_ms) AS more_ms
    FROM before JOIN jobs_shardedstage AS stage ON stage.id = before.stage_id {live_job}
), renewed AS (
    UPDATE jobs_shard SET lease_expires_at = {lease_end}, allowance_ms = allowance_ms + more_ms
    FROM open
    WHERE jobs_shard.id = %(shard_id)s AND try_number = %(try_number)s AND status = 'running'
    RETURNING allowance_ms
), allotted AS (
    UPDATE jobs_shardedstage SET allotted_ms = allotted_ms + more_ms
    FROM open, renewed WHERE jobs_shardedstage.id = open.id
)
SELECT allowance_ms, free_ms - more_ms, is_cancelled, stop_reason FROM open, renewed

-- name: share_job
-- Lock a stage's job, so that its attempt does not end at the same time.
SELECT FROM jobs_job WHERE id = (SELECT job_id FROM jobs_shardedstage WHERE id = %(stage_id)s) FOR SHARE

-- name: end_shard
-- End a running shard with its result, and its run. Time beyond its allowance is not billed.
WITH {shard_before}, ended AS (
    UPDATE jobs_shard SET status = %(status)s, result = %(result)s::jsonb,
        billed_ms = least(%(billed_ms)s, before.allowance_ms), {freed}
    FROM before JOIN jobs_shardedstage AS stage ON stage.id = before.stage_id {live_job}
    WHERE jobs_shard.id = before.id AND try_number = %(try_number)s
        AND jobs_shard.status IN {end_shard_from}
    RETURNING jobs_shard.stage_id, jobs_shard.billed_ms - before.allowance_ms AS change_ms
), allotted AS (
    UPDATE jobs_shardedstage SET allotted_ms = allotted_ms + change_ms
    FROM ended WHERE jobs_shardedstage.id = ended.stage_id
), run AS (
    UPDATE jobs_run SET {run_end} FROM ended WHERE jobs_run.id = %(run_id)s AND ended_at IS NULL
)
SELECT FROM ended

-- name: return_shard
-- Return a running shard to the stage's queue, add `losses`, and mark its run as lost. With `expired_only`,
-- its lease must have expired. `attempt` is null for the slot that has the shard.
WITH {shard_before}, returned AS (
    UPDATE jobs_shard SET status = {return_shard_to}, losses = losses + %(losses)s, {freed}
    FROM before JOIN jobs_shardedstage AS stage ON stage.id = before.stage_id
    WHERE jobs_shard.id = before.id AND try_number = %(try_number)s AND status IN {return_shard_from}
        AND stage.attempt = coalesce(%(attempt)s::integer, stage.attempt)
        AND (NOT %(expired_only)s OR lease_expires_at < statement_timestamp())
    RETURNING jobs_shard.stage_id, jobs_shard.number, before.allowance_ms
), allotted AS (
    UPDATE jobs_shardedstage SET allotted_ms = allotted_ms - allowance_ms
    FROM returned WHERE jobs_shardedstage.id = returned.stage_id
), run AS (
    UPDATE jobs_run SET {lost_run}
    FROM returned JOIN jobs_shardedstage AS stage ON stage.id = returned.stage_id
    WHERE jobs_run.job_id = stage.job_id AND jobs_run.stage = stage.stage
        AND shard = returned.number AND try_number = %(try_number)s AND ended_at IS NULL
)
SELECT FROM returned

-- name: reject_shard
-- Return a done shard to the stage's queue, count a loss, and replace the text if one is given.
WITH {shard_before}, rejected AS (
    UPDATE jobs_shard SET status = {reject_shard_to}, losses = losses + 1, result = NULL, billed_ms = 0,
        text = coalesce(%(text)s, text), full_baseline = full_baseline OR %(text)s IS NOT NULL
    FROM before JOIN jobs_shardedstage AS stage ON stage.id = before.stage_id
    WHERE jobs_shard.id = before.id AND try_number = %(try_number)s AND status IN {reject_shard_from}
        AND stage.attempt = %(attempt)s
    RETURNING jobs_shard.stage_id, before.billed_ms
), allotted AS (
    UPDATE jobs_shardedstage SET allotted_ms = allotted_ms - billed_ms
    FROM rejected WHERE jobs_shardedstage.id = rejected.stage_id
)
SELECT FROM rejected

-- name: fund_sharded_stage
-- Raise the time for which a stage is funded.
UPDATE jobs_shardedstage SET funded_ms = greatest(funded_ms, %(funded_ms)s)
WHERE id = %(stage_id)s AND attempt = %(attempt)s
RETURNING id

-- name: stop_sharded_stage
-- Record why the shards of a stage must stop, unless a reason is recorded. Return a row if it was.
UPDATE jobs_shardedstage SET stop_reason = %(stop_reason)s
WHERE id = %(stage_id)s AND attempt = %(attempt)s AND stop_reason = ''
RETURNING id

-- name: read_sharded_stage
-- Return the numbers of waiting, running, failed and stopped shards, the number of profilesets in done shards, the
-- largest number of losses, the free and the funded time, and the ids and tries of running shards whose lease has
-- expired.
SELECT count(*) FILTER (WHERE status = 'waiting'), count(*) FILTER (WHERE status = 'running'),
    count(*) FILTER (WHERE status = 'failed'), count(*) FILTER (WHERE status = 'stopped'),
    coalesce(sum(profilesets) FILTER (WHERE status = 'done' AND number > 0), 0), max(losses),
    min(funded_ms - allotted_ms), min(funded_ms),
    coalesce(
        jsonb_agg(jsonb_build_array(jobs_shard.id, try_number))
            FILTER (WHERE status = 'running' AND lease_expires_at < statement_timestamp()),
        '[]'
    )
FROM jobs_shard JOIN jobs_shardedstage AS stage ON stage.id = stage_id
WHERE stage_id = %(stage_id)s AND stage.attempt = %(attempt)s

-- name: productive_attempts
-- Return the attempts in which the last try of a done shard started.
SELECT DISTINCT jobs_run.attempt
FROM jobs_shardedstage AS stage JOIN jobs_shard ON stage_id = stage.id AND jobs_shard.status = 'done'
JOIN jobs_run ON jobs_run.job_id = stage.job_id AND jobs_run.stage = stage.stage AND shard = jobs_shard.number
    AND jobs_run.try_number = jobs_shard.try_number
    AND jobs_run.attempt >= coalesce(stage.created_by_attempt, stage.attempt)
WHERE stage.job_id = %(job_id)s

-- name: adopt_stage
-- Give a stage to the job's attempt, with new funds and without losses. Shards that nothing runs any more wait again,
-- and their runs are lost: those of the last conductor and those with an expired lease. Return how many shards are
-- done, and how many there are.
WITH shards AS (
    SELECT id, number, try_number, status, allowance_ms,
        status IN {return_shard_from} AND (seat = 0 OR lease_expires_at < statement_timestamp()) AS is_orphan
    FROM jobs_shard WHERE stage_id = %(stage_id)s
), returned AS (
    UPDATE jobs_shard SET losses = 0, status = {return_shard_to}, {freed}
    FROM shards WHERE jobs_shard.id = shards.id AND is_orphan
), forgiven AS (
    UPDATE jobs_shard SET losses = 0 FROM shards WHERE jobs_shard.id = shards.id AND NOT is_orphan AND losses > 0
), orphaned AS (
    SELECT coalesce(sum(allowance_ms) FILTER (WHERE is_orphan), 0) AS allowance_ms FROM shards
), adopted AS (
    UPDATE jobs_shardedstage SET attempt = %(attempt)s, created_by_attempt = coalesce(created_by_attempt, attempt),
        allotted_ms = allotted_ms - orphaned.allowance_ms,
        funded_ms = greatest(%(funded_ms)s, allotted_ms - orphaned.allowance_ms)
    FROM orphaned WHERE jobs_shardedstage.id = %(stage_id)s RETURNING job_id, stage
), run AS (
    UPDATE jobs_run SET {lost_run}
    FROM adopted, shards
    WHERE is_orphan AND jobs_run.job_id = adopted.job_id AND jobs_run.stage = adopted.stage
        AND jobs_run.shard = shards.number AND jobs_run.try_number = shards.try_number AND ended_at IS NULL
)
SELECT count(*) FILTER (WHERE status = 'done'), count(*) FROM shards, adopted

-- part: removed_shards
-- Part of a WITH clause: remove the stages in `removed` with their shards. Return the number and the tries of each.
removed_shards AS (
    DELETE FROM jobs_shard USING removed WHERE stage_id = removed.id RETURNING stage_id, number, try_number
)
SELECT stage_id, number, try_number FROM removed_shards

-- name: remove_stage
-- Remove a stage whose job has ended, with its shards. Return the removed shards.
WITH removed AS (
    DELETE FROM jobs_shardedstage AS stage
    WHERE id = %(stage_id)s AND NOT EXISTS (SELECT FROM jobs_job WHERE id = stage.job_id AND status IN {active})
    RETURNING id
), {removed_shards}

-- name: discard_stages
-- Remove a job's stages from a number on, with their shards, and mark their unfinished runs as lost. Return the
-- stages, numbers and tries of the shards.
WITH removed AS (
    DELETE FROM jobs_shardedstage WHERE job_id = %(job_id)s AND stage >= %(first)s RETURNING id
), run AS (
    UPDATE jobs_run SET {lost_run} WHERE job_id = %(job_id)s AND stage >= %(first)s AND ended_at IS NULL
), {removed_shards}
