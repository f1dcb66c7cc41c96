"""`deleteaccount`: delete an account after a grace period, or undo it."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from billing.models import Account
from clients.audit import COMMAND_LINE
from privacy import accounts
from privacy.errors import DeletionStarted
from simservice.operations.commands import BaseCommand


class Command(BaseCommand):
    help = (
        "Suspends an account, revokes its keys and deletes its data after a grace period of "
        f"{accounts.GRACE.days} days. The ledger is kept."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("account")
        choice = parser.add_mutually_exclusive_group()
        choice.add_argument("--now", action="store_true", help="end the grace period; this cannot be undone")
        choice.add_argument("--undo", action="store_true", help="undo the deletion in its grace period")

    def handle(self, *args: Any, **options: Any) -> None:
        account = Account.objects.filter(name=options["account"]).first()
        if account is None:
            raise CommandError(f"There is no account {options['account']!r}.")
        if options["undo"]:
            try:
                undone = accounts.undo(account, by=COMMAND_LINE)
            except DeletionStarted:
                raise CommandError("The grace period has ended, so the deletion cannot be undone.") from None
            if not undone:
                raise CommandError(f"{account} is not being deleted.")
            self.stdout.write(f"The deletion of {account} was undone. Its keys stay revoked.")
            return
        deletion = accounts.request(account, by=COMMAND_LINE)
        if options["now"]:
            accounts.finish_now(account, by=COMMAND_LINE)
            self.stdout.write(f"The data of {account} is being deleted.")
        else:
            self.stdout.write(f"The data of {account} will be deleted on {deletion.due_at:%Y-%m-%d %H:%M} UTC.")
