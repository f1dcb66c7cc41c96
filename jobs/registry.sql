-- The data that an attempt needs. The orders of builds are those of `registry._candidates`.

-- part: preference
-- The builds that come before the channel's order.
id = (SELECT build_id FROM jobs_shardedstage WHERE job_id = %(job_id)s ORDER BY attempt DESC, stage LIMIT 1)
    DESC NULLS LAST, id = %(pinned_build_id)s DESC NULLS LAST

-- part: preparation
-- Read the job's build (that of the sharded stages of an earlier attempt if it is available, else the pinned build,
-- else the first build in the channel's order), its
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
ORDER BY {preference}, created_at DESC, id
LIMIT 1

-- name: prepare_nightly
-- Read the data of a job whose channel is `nightly`.
{preparation}
ORDER BY {preference},
    CASE WHEN created_at < %(today)s THEN created_at END DESC NULLS LAST, created_at, id
LIMIT 1

-- name: prepare_weekly
-- Read the data of a job whose channel is `weekly`.
{preparation}
ORDER BY {preference},
    CASE WHEN created_at BETWEEN %(monday)s AND %(now)s THEN created_at END,
    CASE WHEN created_at < %(monday)s THEN created_at END DESC NULLS LAST, created_at, id
LIMIT 1
