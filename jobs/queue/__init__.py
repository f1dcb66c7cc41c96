"""The queue of waiting jobs: claims, announcements, forecasts, and the sweep that repairs it.

The queue is the table of jobs in PostgreSQL, in the order of priority and id. Celery messages only wake slots: a
lost, late or repeated message never changes which job comes next. A job leaves the queue by a claim, or by the
sweep when its wait is over.

The package promises that a claimed job is the best waiting one for which this machine has a build, and that every
job whose worker died, or whose message was lost, continues within a few sweeps. It does not promise when a job
starts: a forecast is an estimate from a snapshot in Redis, and is None without one.

Operators can pause a lane or drain a machine (`closures`). Claims leave out the jobs of a paused lane, and a
drained machine claims nothing.

Start with `claims.claim_work`, then `sweep.sweep`. `forecast` and `position_samples` only estimate.
"""
