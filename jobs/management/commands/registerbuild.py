"""`registerbuild EXECUTABLE --branch B --commit C [--profiles DIR]`: make an executable available to jobs."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection

from jobs import registry
from jobs.execution import build_probe
from jobs.models import Build
from jobs.operations import build_registration, html_reports
from simservice.operations.commands import BaseCommand

# The exit status for an executable that cannot be used, as opposed to a database that does not respond
UNUSABLE = 3
OTHER_STACK = (
    "To register the build in a stack started by `make run` or `manage.py local --data DIR`, first load the "
    "stack's settings: set -a; . DIR/stack.env; set +a (with `make run`, DIR is .local)."
)


class Command(BaseCommand):
    help = (
        "Probes a simulator executable and records it as a build that jobs can run on. A build that is registered "
        f"again keeps the values of options that are left out. {OTHER_STACK}"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("executable", type=Path)
        parser.add_argument("--branch", required=True, help="the git branch it was built from")
        parser.add_argument("--commit", required=True, help="the commit it was built from")
        parser.add_argument("--profiles", type=Path, help="the folder with its bundled files, which are checked")
        parser.add_argument(
            "--readable",
            type=Path,
            action="append",
            default=[],
            help="a file or folder that the executable also needs to read, such as its libraries; can be repeated",
        )
        parser.add_argument("--repo", help="the repository it was built from, shown to callers")
        parser.add_argument("--created-at", type=_aware_time, help="when it was built, ISO 8601 (default: now)")
        parser.add_argument("--restore", action="store_true", help="make a withdrawn build available again")
        parser.add_argument("--if-new", action="store_true", help="do nothing if the commit is already registered")

    def handle(
        self, *args: Any, executable: Path, profiles: Path | None, readable: list[Path], **options: Any
    ) -> None:
        registered = Build.objects.filter(git_branch=options["branch"], commit=options["commit"])
        if options["if_new"] and registered.exists():
            return
        if profiles is not None and not profiles.is_dir():
            raise CommandError(f"{profiles} is not a folder.")
        if missing := [path for path in readable if not path.exists()]:
            raise CommandError(f"{missing[0]} does not exist.")
        self.warn_of_branch(options["branch"])
        origin = build_registration.Origin(
            git_branch=options["branch"],
            commit=options["commit"],
            repo=options["repo"],
            created_at=options["created_at"],
        )
        try:
            build = build_registration.register(
                executable, origin, readable=readable, profiles=profiles, on_progress=self.show_progress
            )
        except build_probe.UnusableBuild as error:
            raise CommandError(str(error), returncode=UNUSABLE) from error
        except build_probe.NotChecked as error:
            raise CommandError(f"The build was not checked: {error}") from error
        if options["restore"]:
            registry.restore(Build.objects.filter(pk=build.pk))
        self.stdout.write(f"{build.pk} {build.simc_version} ({build}), {len(build.profiles)} bundled profiles")
        self.show_checks(build)
        self.try_html_report(build)
        self.report(f"Registered in the database {connection.settings_dict['NAME']}. {OTHER_STACK}")

    def warn_of_branch(self, branch: str) -> None:
        """Warn if jobs cannot request the branch."""
        if branch not in settings.GIT_BRANCHES:
            listed = ", ".join(settings.GIT_BRANCHES)
            self.report(f"Warning: no job can run on this build until GIT_BRANCHES ({listed}) includes {branch}.")

    def show_progress(self, done: int, total: int) -> None:
        self.report(f"{done:,} of {total:,} bundled files checked")

    def show_checks(self, build: Build) -> None:
        """Print how many bundled files can be included, and why others are left out."""
        if build.ci is None:
            return
        for failed in build.ci["failures"]:
            use = "can only be included" if failed["name"] in build.includable else "left out"
            self.report(f"{use}: {failed['name']}: {failed['reason']}")
        alone = len(build.profiles)
        self.report(f"{len(build.includable):,} bundled files can be included; {alone:,} of them simulate alone.")

    def try_html_report(self, build: Build) -> None:
        """Record whether the build can write HTML reports, and print why not."""
        try:
            failure = html_reports.record(build)
        except build_probe.NotChecked as error:
            self.report(f"No HTML report was tried: {error}")
            return
        if failure is None:
            self.report(
                "No HTML report was tried: the build could not simulate the small profile or a bundled one."
            )
        elif failure:
            self.report(f"Warning: this build cannot write HTML reports. {failure} {html_reports.advice(failure)}")

    def report(self, line: str) -> None:
        """Print a line to standard error at once, even if it is not a terminal."""
        self.stderr.write(line, str)
        self.stderr.flush()


def _aware_time(text: str) -> datetime:
    """Parse an ISO 8601 time; UTC is the default. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
