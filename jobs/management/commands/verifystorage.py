"""`verifystorage`: check the counted bytes of accounts' files."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from jobs.artifacts import storage
from simservice.operations.commands import BaseCommand


class Command(BaseCommand):
    help = (
        "Compares the counted bytes of each account with its artifacts. Lists each discrepancy; "
        "the exit status is 1 if there are any and --mend is not set."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--mend", action="store_true", help="correct the counts")

    def handle(self, *args: Any, **options: Any) -> None:
        discrepancies = list(storage.verify())
        for discrepancy in discrepancies:
            self.stdout.write(str(discrepancy))
            if options["mend"]:
                storage.mend(discrepancy.account_id)
        count = f"{len(discrepancies)} {'discrepancy' if len(discrepancies) == 1 else 'discrepancies'}"
        if discrepancies and not options["mend"]:
            raise CommandError(f"{count} found. To correct the counts, add --mend.")
        self.stdout.write(f"{count} corrected." if discrepancies else "No discrepancies found.")
