"""`grantcredits ACCOUNT N [--reason R] [--note TEXT] [--days N]`: give an account credits."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from billing import ledger
from billing.models import Account, GrantReason
from clients import accounts
from clients.audit import COMMAND_LINE


class Command(BaseCommand):
    help = "Grants an account credits, for good or for some days, and prints the grant's id."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("account", help="the account's name")
        parser.add_argument("credits", type=int, help="how many")
        parser.add_argument(
            "--reason",
            choices=GrantReason.values,
            default=GrantReason.GRANT_PROMO.value,
            help="the reason that the API shows (default: %(default)s)",
        )
        parser.add_argument("--note", default="", help="the reason in your own words, shown to members")
        parser.add_argument("--days", type=int, help="days until unspent credits expire (default: never)")

    def handle(
        self,
        *args: Any,
        account: str,
        credits: int,  # noqa: A002 - the word that the usage line shows
        reason: str,
        note: str,
        days: int | None,
        **options: Any,
    ) -> None:
        found = Account.objects.filter(name=account).first()
        if found is None:
            raise CommandError(f"There is no account {account!r}.")
        if days is not None and not 1 <= days <= 36_500:
            raise CommandError("--days must be from 1 to 36500.")
        expires_at = timezone.now() + timedelta(days=days) if days else None
        try:
            granted = accounts.grant_credits(
                found, credits, reason=GrantReason(reason), note=note, by=COMMAND_LINE, expires_at=expires_at
            )
        except ledger.Refused as error:
            raise CommandError(str(error)) from error
        self.stdout.write(str(granted.pk))
