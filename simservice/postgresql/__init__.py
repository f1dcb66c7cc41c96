"""PostgreSQL: a database backend that notices outages, prepared statements, and rules for migrations.

- `base` is the backend. Its connections give up if PostgreSQL does not respond, so an outage does not occupy every
  thread.
- `statements` loads SQL from files and executes it in few round trips; `rows` turns its rows into models.
- `connections` has snapshots and time limits of statements.
- `migration_limits` and `migration_phases` let migrations run while the service is in use.

Everything works through PgBouncer in transaction mode. Commands and migrations have no deadline, unless they ask
for one. Start with `base.py` for connections and `statements.py` for SQL.
"""
