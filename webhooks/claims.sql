-- Claims of due events.

-- name: candidates
-- Lock endpoints of a pool that have due events and are below their limits: first those with nothing in flight,
-- then the least recently used. Skip endpoints that another worker has locked. `waiting` finds the clients with one
-- index search each, so the cost depends neither on the number of endpoints nor on the number of waiting events.
WITH RECURSIVE sending AS MATERIALIZED (
    SELECT event.client_id, client.account_id, count(*) AS requests
    FROM webhooks_event AS event JOIN clients_client AS client ON client.id = event.client_id
    WHERE event.state = 'sending' GROUP BY event.client_id, client.account_id
), waiting(client_id) AS (
    SELECT min(client_id) FROM webhooks_event WHERE state = 'waiting'
    UNION ALL
    SELECT (SELECT min(client_id) FROM webhooks_event
        WHERE state = 'waiting' AND client_id > waiting.client_id)
    FROM waiting WHERE client_id IS NOT NULL
)
SELECT endpoint.*, client.account_id, statement_timestamp() AS read_at
FROM waiting
    JOIN webhooks_endpoint AS endpoint ON endpoint.client_id = waiting.client_id
    JOIN clients_client AS client ON client.id = waiting.client_id
    LEFT JOIN sending ON sending.client_id = waiting.client_id
WHERE endpoint.disabled_at IS NULL
    AND (endpoint.failing_since IS NOT NULL) = %(failing)s
    AND (endpoint.busy_until IS NULL OR endpoint.busy_until <= statement_timestamp() + %(spare)s)
    AND coalesce(sending.requests, 0) < %(per_client)s
    AND coalesce((SELECT sum(requests) FROM sending AS own WHERE own.account_id = client.account_id), 0)
        < %(per_account)s
    AND EXISTS (SELECT FROM webhooks_event AS event WHERE event.client_id = waiting.client_id
        AND event.state = 'waiting' AND event.next_attempt_at <= statement_timestamp())
ORDER BY sending.client_id IS NOT NULL, endpoint.busy_until NULLS FIRST, endpoint.client_id
LIMIT %(room)s
FOR NO KEY UPDATE OF endpoint SKIP LOCKED

-- name: next_due
-- Lock the next due events of clients, up to a limit for each client, in the given order of clients, earliest
-- first. The range condition and the two-column order make PostgreSQL use the index of events by client. The index
-- of all due events can begin with many events of other clients.
SELECT event.*
FROM unnest(%s::bigint[]) WITH ORDINALITY AS share(client_id, turn)
CROSS JOIN LATERAL (
    SELECT * FROM webhooks_event AS waiting
    WHERE waiting.client_id BETWEEN share.client_id AND share.client_id AND waiting.state = 'waiting'
        AND waiting.next_attempt_at <= statement_timestamp()
    ORDER BY waiting.client_id, waiting.next_attempt_at LIMIT %s
    FOR NO KEY UPDATE SKIP LOCKED
) AS event
ORDER BY share.turn, event.next_attempt_at

-- name: use_throughput
-- Record the times until which the throughput of endpoints is used.
UPDATE webhooks_endpoint AS endpoint SET busy_until = used.until
FROM unnest(%s::bigint[], %s::timestamptz[]) AS used(client_id, until)
WHERE endpoint.client_id = used.client_id
