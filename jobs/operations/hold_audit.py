"""Comparison of jobs with the holds in the ledger: a job has an open hold until it ends, then a settled one."""

from collections.abc import Iterator

from django.db import connection

from simservice.postgresql.statements import load

SQL = load(__file__)


def discrepancies() -> Iterator[str]:
    """Yield a sentence for each job that does not match its hold."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["hold_discrepancies"])
        rows = cursor.fetchall()
    for (sentence,) in rows:
        yield sentence
