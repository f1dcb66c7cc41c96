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

-- part: chosen_title
-- A title that a person chose, as the index has it.
upper(left(coalesce(nullif(given_title, ''), metadata::json ->> 'title'), 100))

-- part: until
-- The end of the texts that start with a text, in the order of the index.
(upper(%(start)s) || chr(1114111))

-- name: find_by_title
-- Return the newest of the jobs whose chosen title or first character starts with a text, regardless of case. Ended
-- jobs are found by two indexes of their own (`jobs/migrations/0003_console_indexes.py`), and claimed ones by theirs,
-- which is small. At most 1,000 rows of each index are read, so a common start does not find the newest of all.
-- A pattern of LIKE would not use an index here, because a prepared statement has one plan for all values.
WITH found AS MATERIALIZED (
    (SELECT id FROM jobs_job
     WHERE {chosen_title} ~>=~ upper(%(start)s) AND {chosen_title} ~<~ {until} AND completed_at IS NOT NULL
     LIMIT 1000)
    UNION
    (SELECT id FROM jobs_job
     WHERE upper(character) ~>=~ upper(%(start)s) AND upper(character) ~<~ {until} AND completed_at IS NOT NULL
     LIMIT 1000)
    UNION
    (SELECT id FROM jobs_job
     WHERE status IN {claimed} AND (
         starts_with({chosen_title}, upper(%(start)s)) OR starts_with(upper(character), upper(%(start)s)))
     LIMIT 1000)
)
SELECT id FROM found ORDER BY id DESC LIMIT %(limit)s
