"""Plans, accounts, and the ledger of their credits.

The ledger is double-entry bookkeeping: each entry moves credits between two pockets of an account, so credits
cannot appear or disappear. Entries are only added, never changed. Balances, grants and holds are stored next to
them. Each change locks the account's balance, writes its entries and updates these totals in one transaction.

`ledger` and `ledger.sql` are the only code that writes credits. A job holds credits when it is stored and settles
them when it ends. The statements in `jobs` that do this include fragments of `ledger.sql`, so a job is never
accepted without its hold and never ends without its bill.

Promised: no request spends credits that another one holds or that have expired, and `verification` can recompute
every total from the entries. Not promised: payments. Credits are counted, not sold.

Start with `models.py`, then `ledger.sql`.
"""
