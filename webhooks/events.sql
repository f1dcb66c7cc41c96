-- The outbox of webhook events.

-- part: inserted_event
-- Insert an event for each job in the part `notifying`, which has `client_id`, `job_id` and `trace_parent`. The
-- parameters are those of `events.parameters`. The database's clock decides which events are due.
INSERT INTO webhooks_event (
    name, client_id, job_id, body, created_at, state, failure, failures, trace_parent, next_attempt_at
)
SELECT %(event_name)s, client_id, job_id, %(event_body)s::bytea, statement_timestamp(), 'waiting', '', 0,
    trace_parent, statement_timestamp()
FROM notifying
