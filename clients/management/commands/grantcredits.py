"""`grantcredits ACCOUNT N [--reason R] [--note TEXT] [--days N]`: grant credits to an account."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from billing.errors import InvalidCreditChange
from billing.models import Account, GrantReason
from clients import accounts
from clients.audit import COMMAND_LINE
from simservice.operations.commands import BaseCommand


class Command(BaseCommand):
    help = "Grant credits to an account and print the id of the grant."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("account", help="name of the account")
        parser.add_argument("credits", type=int, help="number of credits")
        parser.add_argument(
            "--reason",
            choices=GrantReason.values,
            default=GrantReason.GRANT_PROMO.value,
            help="reason shown in the API (default: %(default)s)",
        )
        parser.add_argument("--note", default="", help="note shown to members of the account")
        parser.add_argument("--days", type=int, help="days until unspent credits expire (default: never)")

    def handle(
        self,
        *args: Any,
        account: str,
        credits: int,  # noqa: A002 - shown in the usage line
        reason: str,
        note: str,
        days: int | None,
        **options: Any,
    ) -> None:
        recipient = Account.objects.filter(name=account).first()
        if recipient is None:
            raise CommandError(f"Account {account!r} does not exist.")
        if days is not None and not 1 <= days <= 36_500:
            raise CommandError("--days must be from 1 to 36500.")
        expires_at = timezone.now() + timedelta(days=days) if days else None
        try:
            granted = accounts.grant_credits(
                recipient, credits, reason=GrantReason(reason), note=note, by=COMMAND_LINE, expires_at=expires_at
            )
        except InvalidCreditChange as error:
            raise CommandError(str(error)) from error
        self.stdout.write(str(granted.pk))
