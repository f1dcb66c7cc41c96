"""Access to an account: its clients and API keys, its members and invitations, its audit log, and rate limits.

A client is one integration of an account, and owns API keys. A member is a user with a role. Both act on an account
only through functions that take an `Actor` and write the audit log in the transaction of the change.

Promised: keys and invitations are stored only as hashes and shown once. Keys are checked against the database in
every request, so a revoked key stops working at once. An account always keeps an owner who can log in, and an event
of the audit log never changes. Not promised: exact rate limits. They are counted in Redis, and while Redis is
unavailable, all requests are allowed.

Who may open a page is decided in `dashboard.access`, and what a job may cost in `billing` and `jobs`.

Start with `models.py` and `audit.Actor`, then `authentication.py` for requests to the API.
"""
