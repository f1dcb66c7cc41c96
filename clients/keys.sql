-- API keys.

-- part: is_read_only
-- Whether a key is read-only. A key can never do more than its creator's current role allows.
EXISTS (
    SELECT FROM clients_membership AS maker
    JOIN clients_client AS owner ON owner.account_id = maker.account_id
    WHERE owner.id = clients_apikey.client_id AND maker.user_id = clients_apikey.created_by_id
        AND maker.role = 'viewer'
)

-- name: find_key
-- Return a key with its client, account and plan, and whether it is read-only. Every request with a key runs this.
SELECT {key}, {client}, {account}, {plan}, {is_read_only}
FROM clients_apikey
JOIN clients_client ON clients_client.id = clients_apikey.client_id
JOIN billing_account ON billing_account.id = clients_client.account_id
JOIN billing_plan ON billing_plan.id = billing_account.plan_id
WHERE clients_apikey.sha256 = %(sha256)s
