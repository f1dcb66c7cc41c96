"""SQL of the moves of shards, run by `jobs/shards/moves.py`.

A statement that changes a shard follows `LOCK`, so the moves of one stage happen one after the other, and each
sees the one before. Whether a stage is void is read from its job without a lock. If the job ends at the same
moment, the move does no harm, because nothing reads the job's shards any more.
"""

# ruff: noqa: S608 - only constants become part of the statements

from jobs.move_statements import (
    BEST_OPEN_STAGE,
    CLAIMABLE,
    CURRENT_JOB,
    LEASE_END,
    MAY_START,
    NEEDS_HELP,
    RUN_END,
)
from simservice.statements import Statement

LOCK = Statement("lock_sharded_stage", "SELECT FROM jobs_shardedstage WHERE id = %(stage_id)s FOR NO KEY UPDATE")

FIND_OPEN = Statement("find_open_stage", BEST_OPEN_STAGE)

# Start a try of the stage's first waiting shard. `conducts` is for the slot that has the job: its seat is 0, it may
# use less than a slice, and it may run shard 0. A helper's shard comes after waiting jobs of the same or a better
# priority.
CLAIM = Statement(
    "claim_shard",
    f"""
    WITH open AS (
        SELECT least(stage.slice_ms, stage.funded_ms - stage.allotted_ms) AS allowance_ms,
            CASE WHEN %(conducts)s THEN 0 ELSE (
                SELECT min(free) FROM generate_series(1, stage.slots - 1) AS free
                WHERE NOT EXISTS (
                    SELECT FROM jobs_shard WHERE stage_id = stage.id AND status = 'running' AND seat = free
                )
            ) END AS seat
        FROM jobs_shardedstage AS stage {CURRENT_JOB}
        WHERE stage.id = %(stage_id)s AND CASE
            WHEN %(conducts)s THEN {MAY_START} AND stage.allotted_ms < stage.funded_ms
            ELSE {NEEDS_HELP} AND NOT EXISTS (
                SELECT FROM jobs_job WHERE status IN ('pending', 'queued') AND priority <= stage.priority
                    AND queue_deadline_at > statement_timestamp()
            )
        END
    ), best AS (
        SELECT id FROM jobs_shard
        WHERE stage_id = %(stage_id)s AND {CLAIMABLE} AND (%(conducts)s OR number > 0)
        ORDER BY number LIMIT 1
    ), claimed AS (
        UPDATE jobs_shard SET status = 'running', try_number = try_number + 1, seat = open.seat,
            worker = %(worker)s, lease_expires_at = {LEASE_END}, allowance_ms = open.allowance_ms
        FROM open, best WHERE jobs_shard.id = best.id AND open.seat IS NOT NULL
        RETURNING jobs_shard.id, stage_id, number, try_number, jobs_shard.seat, jobs_shard.allowance_ms, text,
            profilesets, full_baseline
    ), allotted AS (
        UPDATE jobs_shardedstage SET allotted_ms = allotted_ms + claimed.allowance_ms
        FROM claimed WHERE jobs_shardedstage.id = claimed.stage_id
    )
    SELECT * FROM claimed
    """,
)

# Insert the run of a shard's try, or return the one that was inserted before. The job's row is locked, so the job
# cannot end or be requeued at the same time.
START = Statement(
    "start_shard",
    f"""
    INSERT INTO jobs_run (
        job_id, attempt, stage, shard, try_number, seat, build_id, started_at, stopped_for, sandbox_layers
    )
    SELECT stage.job_id, stage.attempt, stage.stage, number, try_number, seat, stage.build_id,
        statement_timestamp(), '', '[]'
    FROM jobs_shard JOIN jobs_shardedstage AS stage ON stage.id = stage_id {CURRENT_JOB}
    WHERE jobs_shard.id = %(shard_id)s AND try_number = %(try_number)s AND jobs_shard.status = 'running'
    ON CONFLICT (job_id, attempt, stage, shard, try_number) DO UPDATE SET seat = EXCLUDED.seat
    RETURNING id
    """,
)

# Renew the lease of a running shard and extend its allowance by `wanted_ms`, or by what is left. Return the
# allowance, the time that is left for the stage, whether cancellation was requested, and why the shard must stop.
RENEW = Statement(
    "renew_shard",
    f"""
    WITH open AS (
        SELECT stage.id, stage.stop_reason, job.cancel_requested_at IS NOT NULL AS is_cancelled,
            stage.funded_ms - stage.allotted_ms AS free_ms,
            least(%(wanted_ms)s, stage.funded_ms - stage.allotted_ms) AS more_ms
        FROM jobs_shardedstage AS stage {CURRENT_JOB} WHERE stage.id = %(stage_id)s
    ), renewed AS (
        UPDATE jobs_shard SET lease_expires_at = {LEASE_END}, allowance_ms = allowance_ms + more_ms
        FROM open
        WHERE jobs_shard.id = %(shard_id)s AND try_number = %(try_number)s AND status = 'running'
        RETURNING allowance_ms
    ), allotted AS (
        UPDATE jobs_shardedstage SET allotted_ms = allotted_ms + more_ms
        FROM open, renewed WHERE jobs_shardedstage.id = open.id
    )
    SELECT allowance_ms, free_ms - more_ms, is_cancelled, stop_reason FROM open, renewed
    """,
)

_FREED = "seat = NULL, worker = '', lease_expires_at = NULL, allowance_ms = 0"
# The shard as it is before the move.
_BEFORE = "before AS (SELECT id, stage_id, number, allowance_ms, billed_ms FROM jobs_shard WHERE id = %(shard_id)s)"

# End a running shard with its result, and its run. Time beyond its allowance is not billed.
END = Statement(
    "end_shard",
    f"""
    WITH {_BEFORE}, ended AS (
        UPDATE jobs_shard SET status = %(status)s, result = %(result)s::jsonb,
            billed_ms = least(%(billed_ms)s, before.allowance_ms), {_FREED}
        FROM before, jobs_shardedstage AS stage {CURRENT_JOB}
        WHERE stage.id = before.stage_id AND jobs_shard.id = before.id AND try_number = %(try_number)s
            AND jobs_shard.status = 'running'
        RETURNING jobs_shard.stage_id, jobs_shard.billed_ms - before.allowance_ms AS change_ms
    ), allotted AS (
        UPDATE jobs_shardedstage SET allotted_ms = allotted_ms + change_ms
        FROM ended WHERE jobs_shardedstage.id = ended.stage_id
    ), run AS (
        UPDATE jobs_run SET {RUN_END} FROM ended WHERE jobs_run.id = %(run_id)s AND ended_at IS NULL
    )
    SELECT FROM ended
    """,
)

# Return a running shard to the stage's queue, add `losses`, and mark its run as lost. With `expired_only`,
# its lease must have expired.
RETURN = Statement(
    "return_shard",
    f"""
    WITH {_BEFORE}, returned AS (
        UPDATE jobs_shard SET status = 'waiting', losses = losses + %(losses)s, {_FREED}
        FROM before
        WHERE jobs_shard.id = before.id AND try_number = %(try_number)s AND status = 'running'
            AND (NOT %(expired_only)s OR lease_expires_at < statement_timestamp())
        RETURNING jobs_shard.stage_id, jobs_shard.number, before.allowance_ms
    ), allotted AS (
        UPDATE jobs_shardedstage SET allotted_ms = allotted_ms - allowance_ms
        FROM returned WHERE jobs_shardedstage.id = returned.stage_id
    ), run AS (
        UPDATE jobs_run SET ended_at = statement_timestamp(), stopped_for = 'lost'
        FROM returned JOIN jobs_shardedstage AS stage ON stage.id = returned.stage_id
        WHERE jobs_run.job_id = stage.job_id AND jobs_run.attempt = stage.attempt AND jobs_run.stage = stage.stage
            AND shard = returned.number AND try_number = %(try_number)s AND ended_at IS NULL
    )
    SELECT FROM returned
    """,
)

# Return a done shard to the stage's queue, count a loss, and replace the text if one is given.
REJECT = Statement(
    "reject_shard",
    f"""
    WITH {_BEFORE}, rejected AS (
        UPDATE jobs_shard SET status = 'waiting', losses = losses + 1, result = NULL, billed_ms = 0,
            text = coalesce(%(text)s, text), full_baseline = full_baseline OR %(text)s IS NOT NULL
        FROM before
        WHERE jobs_shard.id = before.id AND try_number = %(try_number)s AND status = 'done'
        RETURNING jobs_shard.stage_id, before.billed_ms
    ), allotted AS (
        UPDATE jobs_shardedstage SET allotted_ms = allotted_ms - billed_ms
        FROM rejected WHERE jobs_shardedstage.id = rejected.stage_id
    )
    SELECT FROM rejected
    """,
)

# Set the time that a stage is funded for, or why its shards must stop.
FUND = Statement(
    "fund_sharded_stage",
    """
    UPDATE jobs_shardedstage SET funded_ms = greatest(funded_ms, %(funded_ms)s) WHERE id = %(stage_id)s
    RETURNING id
    """,
)
STOP = Statement(
    "stop_sharded_stage",
    """
    UPDATE jobs_shardedstage SET stop_reason = %(stop_reason)s WHERE id = %(stage_id)s AND stop_reason = ''
    RETURNING id
    """,
)

# Return how many shards wait, run, have failed and were stopped, the profilesets of those that are done, the
# largest number of losses, the time that is free and funded, and the ids and tries of running shards whose lease
# has expired.
STATE = Statement(
    "read_sharded_stage",
    """
    SELECT count(*) FILTER (WHERE status = 'waiting'), count(*) FILTER (WHERE status = 'running'),
        count(*) FILTER (WHERE status = 'failed'), count(*) FILTER (WHERE status = 'stopped'),
        coalesce(sum(profilesets) FILTER (WHERE status = 'done' AND number > 0), 0), max(losses),
        min(funded_ms - allotted_ms), min(funded_ms),
        coalesce(
            jsonb_agg(jsonb_build_array(jobs_shard.id, try_number))
                FILTER (WHERE status = 'running' AND lease_expires_at < statement_timestamp()),
            '[]'
        )
    FROM jobs_shard JOIN jobs_shardedstage AS stage ON stage.id = stage_id WHERE stage_id = %(stage_id)s
    """,
)

REMOVE_SHARDS = Statement("remove_shards", "DELETE FROM jobs_shard WHERE stage_id = %(stage_id)s")
REMOVE = Statement("remove_sharded_stage", "DELETE FROM jobs_shardedstage WHERE id = %(stage_id)s RETURNING id")
