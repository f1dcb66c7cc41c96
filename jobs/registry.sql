-- The data that an attempt needs. The orders of builds are those of `registry._candidates`.

-- part: preparation
-- Read the job's build (the pinned build if it is available, otherwise the first build in the channel's order), its
-- profile and its hold, and whether its cancellation was requested. Django reads the build's other columns, which
-- can be large, only when they are used.
SELECT {columns},
    (SELECT text FROM jobs_jobprofile WHERE job_id = %(job_id)s),
    (SELECT credits FROM billing_hold WHERE job_id = %(job_id)s),
    (SELECT cancel_requested_at IS NOT NULL FROM jobs_job WHERE id = %(job_id)s)
FROM jobs_build
WHERE git_branch = %(git_branch)s AND withdrawn_at IS NULL AND NOT id = ANY(%(missing)s::uuid[])

-- name: prepare_latest
-- Read the data of a job whose channel is `latest`.
{preparation}
ORDER BY id = %(pinned_build_id)s DESC NULLS LAST, created_at DESC, id
LIMIT 1

-- name: prepare_nightly
-- Read the data of a job whose channel is `nightly`.
{preparation}
ORDER BY id = %(pinned_build_id)s DESC NULLS LAST,
    CASE WHEN created_at < %(today)s THEN created_at END DESC NULLS LAST, created_at, id
LIMIT 1

-- name: prepare_weekly
-- Read the data of a job whose channel is `weekly`.
{preparation}
ORDER BY id = %(pinned_build_id)s DESC NULLS LAST,
    CASE WHEN created_at BETWEEN %(monday)s AND %(now)s THEN created_at END,
    CASE WHEN created_at < %(monday)s THEN created_at END DESC NULLS LAST, created_at, id
LIMIT 1
