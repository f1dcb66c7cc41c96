"""Accounts and who may act for them: clients, API keys, members, invitations, and the audit log.

An account (`billing.models.Account`) owns everything. It always has one default client, and each API key belongs to
one client. A member is a user with a role in the account: viewer, member or owner.

What this package promises:

- An account always keeps an owner who can log in (`members`).
- A key is stored only as a hash, and shown once (`keys`). A revoked or expired key works in no request that begins
  after the change.
- Each change of an account is recorded in the audit log, in the transaction of the change (`audit`).
- A form with a token is processed once, however often the browser sends it (`form_tokens`).
- While Redis is unavailable, rate limits allow every request (`rate_limits`).

It does not decide what a job may cost or whether it is accepted, and it does not check the permissions of pages:
callers do.

Start with `models`, then `accounts` and `keys`. API requests pass `authentication` and `rate_limits`.
"""
