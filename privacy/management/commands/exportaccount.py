"""`exportaccount`: write the data of an account to a ZIP file."""

import os
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from billing.models import Account
from clients import audit
from clients.audit import COMMAND_LINE, Action
from privacy import account_data, archive
from simservice.operations.commands import BaseCommand


class Command(BaseCommand):
    help = "Writes the data of an account to a ZIP file of JSON Lines."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("account")
        parser.add_argument("file", type=Path, help="must not exist")

    def handle(self, *args: Any, **options: Any) -> None:
        account = Account.objects.select_related("plan").filter(name=options["account"]).first()
        if account is None:
            raise CommandError(f"There is no account {options['account']!r}.")
        audit.record(account.pk, Action.ACCOUNT_EXPORTED, by=COMMAND_LINE)
        try:
            # Only its owner can read the file.
            with open(options["file"], "xb", opener=partial(os.open, mode=0o600)) as target:
                archive.write(target, account_data.sections(account), keep_alive=lambda: None)
        except OSError as error:
            raise CommandError(f"The export was not written: {error}.") from None
        self.stdout.write(f"Exported {account} to {options['file']}.")
