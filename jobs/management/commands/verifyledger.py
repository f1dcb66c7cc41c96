"""`verifyledger`: check the ledger of credits, and that it matches the jobs."""

from typing import Any

from django.core.management.base import CommandError

from billing import ledger
from jobs.operations import hold_audit
from simservice.operations.commands import BaseCommand


class Command(BaseCommand):
    help = (
        "Compares all stored balances with the entries of the ledger, and jobs with their holds. "
        "Lists each discrepancy; the exit status is 1 if there are any."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        discrepancies = [*map(str, ledger.verify()), *hold_audit.discrepancies()]
        for line in discrepancies:
            self.stdout.write(line)
        if discrepancies:
            count = len(discrepancies)
            raise CommandError(f"{count} {'discrepancy' if count == 1 else 'discrepancies'} found.")
        self.stdout.write("No discrepancies found.")
