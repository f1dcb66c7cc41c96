"""Checks of a deployment, and the base of the management commands.

`checks` examines the settings for `manage.py check --deploy`. `doctor` examines the running deployment: its
servers, clocks, storage, disk, mail and certificates. Each finding says what is wrong and what to do. The checks
that need jobs are in `jobs.operations.doctor`.

A check changes nothing but its own test files, and an error in a check becomes a finding. `commands` makes every
command end with one readable line if a server does not respond. Start with `doctor.py`.
"""
