"""SQL of the frequent moves (claim, start and end of a job) and of the lease's renewal, run by `jobs/lifecycle.py`.

Each move takes one round trip. `lifecycle.move` with further queries would have the same result in many round
trips.
"""

# ruff: noqa: S608 - only constants become part of the statements

from billing import settlement
from jobs import details, storage, usage
from jobs.models import Artifact, Job
from simservice.rows import RowReader
from simservice.statements import Statement
from webhooks import events

CLAIMED_JOB = RowReader(Job)
ARTIFACT_FIELDS = Artifact._meta.concrete_fields  # noqa: SLF001 - documented by Django
ARTIFACT_COLUMNS = [str(field.column) for field in ARTIFACT_FIELDS]

LEASE_END = "statement_timestamp() + %(lease_seconds)s * interval '1 second'"

# The job of a sharded stage, if the stage is not void.
CURRENT_JOB = """
    JOIN jobs_job AS job ON job.id = stage.job_id AND job.attempt = stage.attempt
        AND job.status IN ('starting', 'running')
"""
# Conditions of every claim, by a helper or the conductor.
MAY_START = """
    job.cancel_requested_at IS NULL AND job.lease_expires_at > statement_timestamp() AND stage.stop_reason = ''
"""
# Conditions of a claim by a helper. The job is running, because its conductor has then tested the build. The funds
# cover a whole slice, because a smaller rest is kept for running shards.
NEEDS_HELP = f"""
    {MAY_START} AND job.status = 'running' AND stage.allotted_ms + stage.slice_ms <= stage.funded_ms
"""

# This many losses of one shard lose the job's attempt.
MAX_LOSSES = 3
# Shards that may be claimed
CLAIMABLE = f"jobs_shard.status = 'waiting' AND losses < {MAX_LOSSES}"

# The open stage with the best priority and, among equals, the earliest submission. An open stage has a waiting
# shard, a free seat and funds. For use in a WITH clause.
BEST_OPEN_STAGE = f"""
    SELECT stage.id, stage.priority FROM jobs_shardedstage AS stage {CURRENT_JOB}
    WHERE {NEEDS_HELP} AND NOT stage.id = ANY(%(skipped)s::bigint[])
        AND EXISTS (SELECT FROM jobs_shard WHERE stage_id = stage.id AND {CLAIMABLE} AND number > 0)
        AND (SELECT count(*) FROM jobs_shard WHERE stage_id = stage.id AND status = 'running' AND seat > 0)
            < stage.slots - 1
    ORDER BY stage.priority, stage.job_id LIMIT 1
"""

# Move a pending job to queued. Return a row if it was moved.
MARK_QUEUED = Statement(
    "mark_queued",
    """
    WITH moved AS (
        UPDATE jobs_job SET status = 'queued', updated_at = statement_timestamp()
        WHERE id = %(job_id)s AND attempt = %(attempt)s AND status = 'pending' RETURNING id, attempt
    )
    INSERT INTO jobs_jobevent (job_id, at, from_status, to_status, attempt, reason)
    SELECT id, statement_timestamp(), 'pending', 'queued', attempt, '' FROM moved RETURNING job_id
    """,
)

# Claim the best waiting job, unless a shard comes first, and return its columns. `FOR UPDATE` reads the latest
# version of a row, and locked rows are skipped, so this never waits. It reads past overdue jobs, about 1 µs each.
# The sweep ends overdue jobs, because ending one here would delay the claim more than reading past thousands.
# `nullif` hides the branches from the planner, which would expect few rows and sort all waiting jobs. The update
# compares with a subquery, because a join could read the whole table after misleading statistics.
CLAIM = Statement(
    "claim_job",
    f"""
    WITH open AS (
        {BEST_OPEN_STAGE}
    ), best AS (
        SELECT id, status FROM jobs_job
        WHERE status IN ('pending', 'queued') AND queue_deadline_at > statement_timestamp()
            AND priority <= coalesce((SELECT priority FROM open), 32767)
            AND nullif(git_branch = ANY(%(skipped_branches)s::text[]), true) IS NOT NULL
        ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED
    ), claimed AS (
        UPDATE jobs_job SET status = 'starting', attempt = attempt + 1, worker = %(worker)s,
            lease_expires_at = {LEASE_END}, updated_at = statement_timestamp()
        WHERE id = (SELECT id FROM best) RETURNING {CLAIMED_JOB.columns}
    ), event AS (
        INSERT INTO jobs_jobevent (job_id, at, from_status, to_status, attempt, reason)
        SELECT best.id, statement_timestamp(), best.status, claimed.status, attempt, %(reason)s
        FROM claimed JOIN best USING (id)
    )
    SELECT * FROM claimed
    """,
)

# Insert the run of a stage if the part `held` contains the job.
_RUN = """
    INSERT INTO jobs_run (
        job_id, attempt, stage, shard, try_number, build_id, started_at, stopped_for, sandbox_layers
    )
    SELECT id, attempt, %(stage)s::integer, 0, %(try_number)s::integer, %(build_id)s::uuid, statement_timestamp(),
        '', '[]'
    FROM held
    RETURNING id, started_at
"""

# Columns of a run whose process has ended, for use in an UPDATE
RUN_END = """
    ended_at = statement_timestamp(), wall_ms = %(wall_ms)s, cpu_ms = %(cpu_ms)s,
    peak_memory_bytes = %(peak_memory_bytes)s, exit_code = %(exit_code)s, stopped_for = %(stopped_for)s,
    sandbox_layers = %(layers)s
"""

# Move a job to running and insert its first run.
START = Statement(
    "start_job",
    f"""
    WITH held AS (
        UPDATE jobs_job SET status = 'running', build_id = %(build_id)s, started_at = statement_timestamp(),
            updated_at = statement_timestamp()
        WHERE id = %(job_id)s AND attempt = %(attempt)s AND status = 'starting' RETURNING id, attempt
    ), event AS (
        INSERT INTO jobs_jobevent (job_id, at, from_status, to_status, attempt, reason)
        SELECT id, statement_timestamp(), 'starting', 'running', attempt, '' FROM held
    ) {_RUN}
    """,
)

# Insert the run of a later stage. The lock keeps the job from ending or being requeued at the same time.
START_STAGE = Statement(
    "start_stage",
    f"""
    WITH held AS (
        SELECT id, attempt FROM jobs_job
        WHERE id = %(job_id)s AND attempt = %(attempt)s AND status IN ('starting', 'running') FOR NO KEY UPDATE
    ) {_RUN}
    """,
)

# Renew the lease of a job. Return a row, with whether its cancellation was requested, if the attempt has the job.
RENEW = Statement(
    "renew_lease",
    f"""
    UPDATE jobs_job SET lease_expires_at = {LEASE_END}
    WHERE id = %(job_id)s AND attempt = %(attempt)s AND status IN ('starting', 'running')
    RETURNING cancel_requested_at IS NOT NULL
    """,
)

# Lock a job's row.
LOCK = Statement("lock_job", "SELECT FROM jobs_job WHERE id = %(job_id)s FOR NO KEY UPDATE")

# End a job whose row and whose account's balance are locked, if it still has the expected status and attempt, and
# if its hold can be settled. If it ended, return the seconds since its first simulator started, null if none did.
END = Statement(
    "end_job",
    f"""
    WITH ended AS (
        UPDATE jobs_job SET status = %(status)s, error_code = %(error_code)s, status_reason = %(status_reason)s,
            simulator_exit_code = %(exit_code)s, sim_duration_ms = %(sim_duration_ms)s,
            slots_used = %(slots_used)s, credits_consumed = %(spent)s, summary = %(summary)s,
            warnings = %(warnings)s, character = %(character)s, missing_artifacts = %(missing_artifacts)s,
            percent = %(percent)s, worker = '', lease_expires_at = NULL, completed_at = statement_timestamp(),
            updated_at = statement_timestamp()
        WHERE id = %(job_id)s AND status = %(from_status)s AND attempt = %(attempt)s AND {settlement.IS_POSSIBLE}
        RETURNING *
    ), event AS (
        INSERT INTO jobs_jobevent (job_id, at, from_status, to_status, attempt, reason)
        SELECT id, statement_timestamp(), %(from_status)s, status, attempt, coalesce(status_reason, '') FROM ended
    ), settling AS (
        SELECT id AS job_id FROM ended
    ), {settlement.PARTS}, counted AS (
        {usage.COUNT}
    ), notifying AS (
        SELECT id AS job_id, client_id, trace_parent FROM ended WHERE wants_webhook
    ), notified AS (
        {events.INSERT}
    ), stored AS (
        INSERT INTO jobs_artifact ({", ".join(ARTIFACT_COLUMNS)})
        SELECT {", ".join(f"artifact.{column}" for column in ARTIFACT_COLUMNS)}
        FROM ended, jsonb_populate_recordset(NULL::jobs_artifact, %(artifacts)s::jsonb) AS artifact
        RETURNING bytes
    ), weighed AS (
        {storage.ADD}
    ), detailed AS (
        INSERT INTO jobs_jobdetails (job_id, version, document)
        SELECT id, {details.VERSION}, %(details)s::bytea FROM ended WHERE %(details)s::bytea IS NOT NULL
    ), ranked AS (
        INSERT INTO jobs_jobranking (job_id, document)
        SELECT id, %(ranking)s::bytea FROM ended WHERE %(ranking)s::bytea IS NOT NULL
    )
    SELECT extract(epoch FROM completed_at - started_at)::float8 FROM ended
    """,
)
