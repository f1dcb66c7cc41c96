"""`verifyledger`: prove the book of credits, and that it agrees with the jobs."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from billing import ledger
from jobs import hold_audit


class Command(BaseCommand):
    help = (
        "Rebuilds all balances from the book's entries and lists whatever differs; exit status 1 if anything does."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        found = [*map(str, ledger.verify()), *hold_audit.disagreements()]
        for line in found:
            self.stdout.write(line)
        if found:
            raise CommandError(f"The book has {len(found)} discrepancies.")
        self.stdout.write("The book is right.")
