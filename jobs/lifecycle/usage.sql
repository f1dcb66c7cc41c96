-- Usage of accounts by day.

-- part: counted_usage
-- Add the jobs in the part `ended`, which has the columns of jobs, to the usage of their day (UTC).
INSERT INTO jobs_dailyusage (account_id, client_id, build_id, day, jobs, runs, sim_ms, credits)
SELECT account_id, client_id, build_id, (completed_at AT TIME ZONE 'UTC')::date, 1,
    (sim_duration_ms IS NOT NULL)::int, coalesce(sim_duration_ms, 0), credits_consumed
FROM ended
ON CONFLICT (account_id, day, client_id, build_id) DO UPDATE SET
    jobs = jobs_dailyusage.jobs + 1,
    runs = jobs_dailyusage.runs + excluded.runs,
    sim_ms = jobs_dailyusage.sim_ms + excluded.sim_ms,
    credits = jobs_dailyusage.credits + excluded.credits
