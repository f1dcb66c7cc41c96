"""Every change of the status of a job or a shard.

A job waits (`pending`, `queued`), is claimed by a worker (`starting`, `running`), and ends (`completed`,
`failed`, `cancelled`, `timed_out`). Each claim starts an attempt with a lease. A stage of a running job can be
split into shards, which wait, run and end in the same way, in tries.

Why it holds when several processes act at once: each move is one UPDATE that names the status and the attempt, or
the try, that it expects. The first of two moves changes the row; the second finds no row and its caller stops. So
a process that was paused past its lease changes nothing. The move, its `JobEvent`, and everything that must
happen with it are one transaction: at the end of a job, its bill, its usage, its artifacts and its webhook event.

What it does not promise: that a job runs only once (a lost attempt is repeated, except for its finished shards, and
each part is billed once), that a caller learns of a move at once (Redis only speeds that up), or that jobs end in
the order in which they started.

Start with `transitions.py`, the table of all moves. `job_moves.py` and `shard_moves.py` make them, with the SQL
beside them; `cancellation.py` decides what a request to cancel does. The other modules are effects of a job's
end. The rules are in `docs/reference/state-machine.md`. The database enforces some of them itself: constraints, and
a trigger that keeps terminal statuses final.
"""
