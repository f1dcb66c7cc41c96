"""PostgreSQL: connections that notice an outage, statements in files, and the rules of migrations.

`base` is Django's database backend with a deadline: if the server is frozen or the network drops packets, a process
gives up instead of waiting in every thread. Web processes additionally test on another connection whether a slow
statement or the whole server is the problem.

Most queries use the ORM. The frequent ones, and those that must move several rows at once, are in `.sql` files
beside their module; `statements.load` reads them, and `statements.run` sends several in one round trip. Tests
compare each of them with an implementation in the ORM.

Through a pooler, statements are not prepared, and time limits must be set in the pooler. Start with `connections`
and `statements`; read `migration_rules` before you write a migration.
"""
