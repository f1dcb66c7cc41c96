"""`createkey ACCOUNT`: create an API key and print it."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from clients import addresses as networks
from clients.audit import COMMAND_LINE
from clients.errors import InvalidAddresses
from clients.keys import create_key
from clients.models import DEFAULT_CLIENT, Client
from simservice.api.scopes import Scope
from simservice.operations.commands import BaseCommand


class Command(BaseCommand):
    help = "Create an API key for a client of an account and print it. It cannot be shown again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("account", help="name of the account")
        parser.add_argument("--client", default=DEFAULT_CLIENT, help="name of the client (default: %(default)s)")
        parser.add_argument("--days", type=int, help="days until the key expires (default: never)")
        parser.add_argument(
            "--scope",
            choices=Scope.values,
            default=str(Scope.MANAGE),
            help="what the key may do; each scope includes those before it (default: %(default)s)",
        )
        parser.add_argument(
            "--addresses",
            default="",
            metavar="LIST",
            help="comma-separated addresses and networks from which the key is accepted (default: all)",
        )

    def handle(self, *args: Any, account: str, client: str, days: int | None, **options: Any) -> None:
        owner = Client.objects.filter(account__name=account, name=client).first()
        if owner is None:
            raise CommandError(f"Client {client!r} of account {account!r} does not exist.")
        if days is not None and not 1 <= days <= 36_500:
            raise CommandError("--days must be from 1 to 36500.")
        expires_at = timezone.now() + timedelta(days=days) if days else None
        try:
            allowed = networks.parse(options["addresses"])
        except InvalidAddresses as error:
            raise CommandError(str(error)) from None
        scope = Scope(options["scope"])
        _, secret = create_key(owner, by=COMMAND_LINE, expires_at=expires_at, scope=scope, addresses=allowed)
        self.stdout.write(secret)
