"""For operators: the base of management commands, and the checks of a deployment.

`checks` examines settings without connecting to anything (`manage.py check --deploy`). `doctor` connects to every
system that the service needs and tries what the service does there; it leaves no changes behind. Each finding
says what is wrong and what to do. `jobs/operations/doctor.py` adds the checks that know about jobs.

A command whose deployment is at fault prints one line and ends with status 1 (`commands`); other errors are bugs
and keep their traceback. Start with `doctor`.
"""
