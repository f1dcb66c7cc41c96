-- Outcomes of attempts. Both updates write a batch of rows.

-- name: is_sweep_needed
-- Return whether an event is due or its worker is lost. This runs every two seconds, even if there is no work, and
-- would take five times the CPU time with the ORM.
SELECT EXISTS (SELECT FROM webhooks_event WHERE state = 'sending' AND lease_expires_at < statement_timestamp())
    OR EXISTS (SELECT FROM webhooks_event WHERE state = 'waiting' AND next_attempt_at <= statement_timestamp())

-- name: end_attempts
-- Record the outcomes of attempts, and return their ids. Skip attempts that were declared lost.
UPDATE webhooks_delivery AS delivery
SET outcome = ended.outcome, duration_ms = ended.duration_ms, address = ended.address, status = ended.status,
    problem = ended.problem, detail = ended.detail, excerpt = ended.excerpt,
    signature = ended.signature
FROM unnest(%s::bigint[], %s::text[], %s::int[], %s::text[], %s::int[], %s::text[], %s::text[], %s::text[],
        %s::text[])
    AS ended(id, outcome, duration_ms, address, status, problem, detail, excerpt, signature)
WHERE delivery.id = ended.id AND delivery.outcome = 'sending'
RETURNING delivery.id

-- name: move_events
-- Record the states of events after their attempts.
UPDATE webhooks_event AS event
SET state = moved.state, failure = moved.failure, failures = moved.failures, lease_expires_at = NULL,
    next_attempt_at = statement_timestamp() + moved.wait,
    ended_at = CASE WHEN moved.wait IS NULL THEN statement_timestamp() END
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::int[], %s::interval[])
    AS moved(id, state, failure, failures, wait)
WHERE event.id = moved.id
