-- Reads of jobs for the API and the dashboard.

-- name: count_active_jobs
-- Return the number of an account's unfinished jobs. Uses a partial index.
SELECT count(*) FROM jobs_job
WHERE account_id = %(account_id)s AND status IN {active}

-- part: of_account
-- A job of an account, with its build.
FROM jobs_job LEFT JOIN jobs_build ON jobs_build.id = jobs_job.build_id
WHERE jobs_job.id = %(id)s AND jobs_job.account_id = %(account_id)s

-- name: find_job
-- Return a job of an account, with its build.
SELECT {plain}, {build}, NULL {of_account}

-- name: read_job
-- Return a job of an account, with its build, and the number of the account's unfinished jobs.
SELECT {plain}, {build}, ({count_active_jobs}) {of_account}

-- name: read_job_with_summary
-- Return what `read_job` returns, with the job's summary.
SELECT {summarized}, {build}, ({count_active_jobs}) {of_account}

-- name: poll_job
-- Return the fields of an account's job that its status shows, and the number of the account's unfinished jobs.
SELECT {polled}, ({count_active_jobs})
FROM jobs_job WHERE id = %(id)s AND account_id = %(account_id)s

-- name: latest_jobs
-- Return an account's latest jobs with the fields of their titles, in the same way as `jobs/results/listing.py`.
SELECT {titled} FROM jobs_job
WHERE account_id = ANY (ARRAY[%(account_id)s]) AND id >= %(first)s ORDER BY account_id, id DESC LIMIT %(limit)s
