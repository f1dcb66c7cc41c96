"""`checkbuilds`: withdraw builds that no longer run, try HTML reports, and list folders of unused builds."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from jobs import registry
from jobs.execution import build_probe
from jobs.operations import build_registration, html_reports
from simservice.operations.commands import BaseCommand


class Command(BaseCommand):
    help = (
        "Runs the executable of each available build on this machine, and marks those that do not run as broken, "
        "so that no job runs on them. If none runs, it withdraws none. Also lists builds that cannot write HTML "
        "reports. With --unused, only lists folders."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--unused",
            type=Path,
            metavar="FOLDER",
            help="list the subfolders of FOLDER whose builds no job can use any more, and check nothing",
        )

    def handle(self, *args: Any, unused: Path | None, **options: Any) -> None:
        if unused is not None:
            self.list_unused(unused)
            return
        try:
            withdrawn = build_registration.withdraw_unusable()
        except build_probe.UnusableBuild as error:
            raise CommandError(str(error)) from error
        for build, reason in withdrawn.items():
            self.stdout.write(f"Withdrawn: {build}. {reason}")
        for build, failure in html_reports.record_all().items():
            self.stdout.write(f"No HTML reports: {build}. {failure} {html_reports.advice(failure)}")

    def list_unused(self, folder: Path) -> None:
        """Print one path in each line."""
        if not folder.is_dir():
            raise CommandError(f"{folder} is not a folder.")
        for path in registry.unused_folders(folder):
            self.stdout.write(str(path))
