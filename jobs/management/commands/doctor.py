"""`doctor`: check the settings and the systems that the service needs."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from jobs.operations.doctor import CHECKS
from simservice.operations.commands import BaseCommand
from simservice.operations.doctor import Level, run


class Command(BaseCommand):
    help = (
        "Checks the settings, the database and its schema, Redis, clocks, the storage, disks, mail, the "
        "certificate, the sandbox, builds and workers. Each line says what is wrong and what to do. The exit "
        "status is 1 if there is a failure."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--skip", action="append", choices=CHECKS, default=[], help="leave out a check")

    def handle(self, *args: Any, **options: Any) -> None:
        selected = {name: check for name, check in CHECKS.items() if name not in options["skip"]}
        failures = 0
        for name, finding in run(selected):
            failures += finding.level is Level.FAILURE
            self.stdout.write(f"{finding.level:8} {name:12} {finding.message} {finding.advice}".rstrip())
        if failures:
            raise CommandError(f"{failures} {'failure' if failures == 1 else 'failures'} found.")
