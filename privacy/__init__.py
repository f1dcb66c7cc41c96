"""Export and deletion of the data of users and accounts (`docs/explanation/data-protection.md`).

An export is a row that waits, is built by one task under a lease, can be downloaded for a week, and is then deleted
with its file. `attempt` fences the writes of a task that lost its lease.

The deletion of an account is a row with a due date. The account is suspended at once; until the date, the request
can be undone. Then each round of a task removes a bounded part of the data, until a round finds nothing left. Every
step can be repeated, and finds by the database alone what is left to do, so a crash between any two lines is
harmless. The deletion of a user is one transaction.

Promised: what is deleted is gone from tables, files and the admin's history, apart from backups. The ledger stays,
and so do clients and keys, without names. Not promised: that an export is a snapshot; its rows can differ by
seconds.

Start with `accounts.py` for deletions and `exports.py` for exports.
"""
