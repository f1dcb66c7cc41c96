"""`registerbuild EXECUTABLE --branch B --commit C [--profiles DIR]`: make an executable available to jobs."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from jobs import registration


class Command(BaseCommand):
    help = "Probes a simulator executable and records it as a build that jobs may run on."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("executable", type=Path)
        parser.add_argument("--branch", required=True, help="the git branch it was built from")
        parser.add_argument("--commit", required=True, help="the commit it was built from")
        parser.add_argument("--profiles", type=Path, help="the folder of its bundled profiles; each is run once")
        parser.add_argument("--repo", default="", help="the repository it was built from, as callers are told")
        parser.add_argument("--created-at", type=aware_time, help="when it was built, ISO 8601 (default: now)")

    def handle(self, *args: Any, executable: Path, profiles: Path | None, **options: Any) -> None:
        if profiles is not None and not profiles.is_dir():
            raise CommandError(f"{profiles} is not a folder.")
        origin = registration.Origin(
            git_branch=options["branch"],
            commit=options["commit"],
            repo=options["repo"],
            created_at=options["created_at"] or timezone.now(),
        )
        try:
            build = registration.register(executable, origin, profiles=profiles)
        except registration.UnusableBuild as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{build.pk} {build.simc_version} ({build}), {len(build.profiles)} bundled profiles")
        for failure in (build.ci or {}).get("failures", []):
            self.stderr.write(f"left out, because it does not simulate: {failure['name']}")


def aware_time(text: str) -> datetime:
    """Parse an ISO 8601 time, in UTC unless it says otherwise. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
