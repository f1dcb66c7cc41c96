-- Marks of the queue.

-- name: marks
-- Read the next jobs after a key and return a sample that includes the last job of each lane: the job's priority
-- and id, the number of jobs up to and including it, their seconds of work, and the number of jobs that were read.
SELECT priority, id, position, work, total FROM (
    SELECT priority, id, row_number() OVER line AS position, count(*) OVER () AS total,
        sum(coalesce((%s::float8[])[vcpus], %s)) OVER line AS work,
        lead(priority) OVER line IS DISTINCT FROM priority AS ends_lane
    FROM (
        SELECT priority, id, vcpus FROM jobs_job
        WHERE {is_claimable} AND (priority, id) > (%s, %s) ORDER BY priority, id LIMIT %s
    ) AS part
    WINDOW line AS (ORDER BY priority, id ROWS UNBOUNDED PRECEDING)
) AS waiting WHERE ends_lane OR position %% ((total - 1) / %s + 1) = 0
ORDER BY position
