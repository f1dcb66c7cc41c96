"""`deleteuser`: delete a user with their sessions, memberships and exports."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser
from django.db.models import Q

from clients.audit import COMMAND_LINE, name_of
from privacy import users
from privacy.errors import ExportPending, OnlyOwner
from simservice.operations.commands import BaseCommand


class Command(BaseCommand):
    help = "Deletes a user. Accounts whose only owner is the user must be deleted or handed over first."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="an email address or a username")

    def handle(self, *args: Any, **options: Any) -> None:
        found = User.objects.filter(Q(email__iexact=options["user"]) | Q(username=options["user"]))
        if len(found) != 1:
            raise CommandError(f"There is no user {options['user']!r}.")
        name = name_of(found[0])
        try:
            users.delete(found[0], by=COMMAND_LINE)
        except (OnlyOwner, ExportPending, OSError) as error:
            raise CommandError(str(error) or "An export of the user is being built. Try again later.") from None
        self.stdout.write(f"Deleted {name}.")
