"""Verification of the ledger: compares stored balances, grants and holds with the sums of the entries."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db import connection

from simservice.postgresql.statements import load

SQL = load(__file__)


@dataclass(frozen=True)
class Discrepancy:
    """A stored number that differs from the sum of the entries; None means that a number is missing."""

    subject: str
    stored: int | None
    booked: int | None

    def __str__(self) -> str:
        stored, booked = _number_or_nothing(self.stored), _number_or_nothing(self.booked)
        return f"{self.subject}: stored {stored}, entries add up to {booked}"


def _number_or_nothing(number: int | None) -> str:
    """Return a number as text, or "nothing"."""
    return "nothing" if number is None else str(number)


def verify() -> Iterator[Discrepancy]:
    """Yield every stored number that differs from the sum of the entries. One query that reads all entries."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["ledger_discrepancies"])
        rows = cursor.fetchall()
    for subject, stored, booked in rows:
        yield Discrepancy(subject, stored, None if booked is None else int(booked))
