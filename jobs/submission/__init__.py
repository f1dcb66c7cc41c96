"""From a request to an accepted job.

`accept.submit` is the only way to create a job, for the API, batches and the form of the dashboard. It checks what
needs no lock (`validation`), stores the job (`store`), and announces it to the queue after the commit.

`store` is one statement in one transaction: it checks the limits that depend on other jobs, and writes the job with
its profile, its hold and the recorded response. It returns the name of the rule that a request breaks.

Promised: checks happen in the order of `docs/reference/errors.md#order-of-checks`, a rejected request stores
nothing, and a request that is repeated with its idempotency key (`idempotency`) or form token gets the first
response. Not promised: that the announcement arrives. The sweep repeats it.

`dry_run` makes the same checks without storing anything. Start with `accept.py`.
"""
