"""PostgreSQL, Redis and all processes of the service on one machine, for development and tests.

`manage.py local` starts `cli`: it locks a `DataFolder`, starts the servers (`postgres`, `redis_server`),
migrates the database, runs the Procfile under a `Supervisor` until Ctrl-C, and submits a demo job (`demo`).
Start with `stack`.

Promised: no process is left running, data survives a kill, passwords are readable for their owner only, and two
stacks on different folders and ports do not meet. Not promised: anything that production needs, such as TLS.

Nothing here imports Django, because `manage.py local` creates the environment that Django's settings read.
"""
