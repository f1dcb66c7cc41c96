"""One attempt at a job: its build, its stages, its results and its end.

Every stage has one or more shards, and each shard runs as one simulator process. A stage of one shard runs in the
slot that claimed the job; of several shards, free slots help with some. Both take the same path: `SimulatorRun`
starts the process, records its run, watches its time limit and decides its outcome, in any slot. The conductor
collects the results of several shards from the storage, and merges them into one report.

The rows and reports of shards belong to the job. After a lost attempt, the next one adopts them, and runs only what
is not finished (`kept_stages`).

Promised: every write names the attempt, and that of a shard its try, so a slot that lost its lease changes nothing.
No process runs longer than the job has credits for. A database that restarts only delays a run. Errors that end an
attempt but not its job are `GivesUp`; the job then returns to the queue, at once or when its lease expires.

Not here: which job or shard comes next (`jobs.queue`), changes of a status (`jobs.lifecycle`), and the confinement
of the process (`sandbox`).

Start with `attempt.execute`, then `stages.Stages.run`, `conductor.OnlyShard` and
`simulator_run.SimulatorRun`.
"""
