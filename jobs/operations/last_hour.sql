-- What happened to jobs in the last hour, for the operators' console. The index `job_ended` contains all that is read.

-- part: ended
-- The jobs that ended in the last hour.
FROM jobs_job WHERE completed_at > statement_timestamp() - interval '1 hour'

-- name: last_hour
-- Return how many jobs ended with each error code in each interval before now, and the sum of the seconds that those
-- for which a simulator ran had waited.
SELECT floor(extract(epoch FROM statement_timestamp() - completed_at) / %(seconds)s)::int, error_code, count(*),
    count(started_at), coalesce(sum(extract(epoch FROM started_at - created_at)), 0)::float8
{ended} GROUP BY 1, 2

-- name: accounts_of_last_hour
-- Return how many jobs of each account ended, with how many errors of each fault, and what they cost; the accounts
-- with most jobs first.
SELECT account_id, count(*), count(*) FILTER (WHERE error_code = ANY (%(service)s)),
    count(*) FILTER (WHERE error_code = ANY (%(simulator)s)), count(*) FILTER (WHERE error_code = ANY (%(user)s)),
    sum(credits_consumed)
{ended} GROUP BY account_id ORDER BY 2 DESC, 1 LIMIT %(limit)s

-- name: builds_of_last_hour
-- Return how many jobs of each build ended, and with how many errors of the simulator and of the service.
SELECT build_id, count(*), count(*) FILTER (WHERE error_code = ANY (%(simulator)s)),
    count(*) FILTER (WHERE error_code = ANY (%(service)s))
{ended} GROUP BY build_id

-- name: unfinished_by_account
-- Return how many jobs of each account wait and run, those with most jobs first.
SELECT account_id, count(*) FILTER (WHERE status IN {waiting}), count(*) FILTER (WHERE status IN {claimed})
FROM jobs_job WHERE status IN {active} GROUP BY account_id ORDER BY count(*) DESC, 1 LIMIT %(limit)s
