"""The frequent moves in a readable form: with `lifecycle.move`, the ORM and a settlement in Python.

Tests compare them with the statements of `jobs/move_statements.py`, and claim a particular job with them.
"""
