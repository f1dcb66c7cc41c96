"""`createkey ACCOUNT [--client NAME] [--days N]`: make an API key and print it once."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from clients.audit import COMMAND_LINE
from clients.keys import create_key
from clients.models import DEFAULT_CLIENT, Client


class Command(BaseCommand):
    help = "Makes an API key for a client of an account and prints it. It cannot be shown again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("account", help="the account's name")
        parser.add_argument(
            "--client", default=DEFAULT_CLIENT, help="the client it belongs to (default: %(default)s)"
        )
        parser.add_argument("--days", type=int, help="days until it expires (default: never)")

    def handle(self, *args: Any, account: str, client: str, days: int | None, **options: Any) -> None:
        owner = Client.objects.filter(account__name=account, name=client).first()
        if owner is None:
            raise CommandError(f"There is no client {client!r} in an account {account!r}.")
        if days is not None and not 1 <= days <= 36_500:
            raise CommandError("--days must be from 1 to 36500.")
        expires_at = timezone.now() + timedelta(days=days) if days else None
        _, secret = create_key(owner, by=COMMAND_LINE, expires_at=expires_at)
        self.stdout.write(secret)
