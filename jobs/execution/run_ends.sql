-- The ends of simulator processes.

-- name: end_run
-- Record how a process ended, unless its run was already recorded as lost. Return `count` ids for the rows of its
-- artifacts.
WITH ended AS (
    UPDATE jobs_run SET {run_end} WHERE id = %(run_id)s AND ended_at IS NULL
)
SELECT {new_id} FROM generate_series(1, %(count)s::integer)
