"""Evidence that the recorded history of jobs could have happened.

The service records what happens to a job: its events, runs, credits and webhook deliveries. `specification` states
which histories are possible, as rules in plain Python that use neither Django nor the database. `claim_order` does
the same for the order of claims. `replay` reads the recorded rows and names those that break a rule, so a mistake
in a move, a statement or the lifecycle is found afterwards, in a test or in production.

A rule must hold whatever fails: a process, a connection, a machine, Redis. All times are those of the database's
clock, so a step of that clock can break rules that compare times. What the rows do not show is not proved: a
renewal overwrites the lease before it, and the rows of shards are removed when their job ends. Start with `RULES`.
"""
