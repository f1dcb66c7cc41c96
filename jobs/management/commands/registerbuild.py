"""`registerbuild EXECUTABLE --branch B --commit C [--created-at T]`: make an executable available to jobs."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from jobs import builds


class Command(BaseCommand):
    help = "Probes a simulator executable and records it as a build that jobs may run on."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("executable", type=Path)
        parser.add_argument("--branch", required=True, help="the git branch it was built from")
        parser.add_argument("--commit", required=True, help="the commit it was built from")
        parser.add_argument("--created-at", type=aware_time, help="when it was built, ISO 8601 (default: now)")

    def handle(
        self,
        *args: Any,
        executable: Path,
        branch: str,
        commit: str,
        created_at: datetime | None,
        **options: Any,
    ) -> None:
        try:
            build = builds.register(
                executable, git_branch=branch, commit=commit, created_at=created_at or timezone.now()
            )
        except builds.UnusableBuild as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{build.pk} {build.simc_version} ({build})")


def aware_time(text: str) -> datetime:
    """Parse an ISO 8601 time, in UTC unless it says otherwise. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
