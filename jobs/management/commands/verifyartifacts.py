"""`verifyartifacts`: check that every artifact has a file and that every file has a job."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from jobs.operations import artifact_audit
from simservice.operations.commands import BaseCommand


class Command(BaseCommand):
    help = (
        "Compares artifacts with the files in the storage. Lists artifacts whose file is missing, and files "
        "whose job does not exist or has expired; the exit status is 1 if there are any. Safe to interrupt, to "
        "repeat, and to run while the service runs."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--record-missing",
            action="store_true",
            help="show missing files as missing in the results of their jobs",
        )
        parser.add_argument("--remove-unknown", action="store_true", help="remove the files without a job")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            missing = self._missing(record=options["record_missing"])
            unknown = self._unknown(remove=options["remove_unknown"])
        except OSError as error:
            raise CommandError(f"The storage of artifacts does not respond: {error}") from error
        self.stdout.write(
            f"Artifacts whose file is missing: {missing}{', recorded' if options['record_missing'] else ''}. "
            f"Files without a job: {unknown}{', removed' if options['remove_unknown'] else ''}."
        )
        unsolved = (missing and not options["record_missing"]) or (unknown and not options["remove_unknown"])
        if unsolved:
            raise CommandError("Check the storage. Then use --record-missing or --remove-unknown.")

    def _missing(self, *, record: bool) -> int:
        """List the artifacts whose file is missing, and record them if requested. Return how many."""
        count = 0
        for rows in artifact_audit.missing_files():
            for row in rows:
                self.stdout.write(f"missing: {row.storage_name} (job {row.job_id})")
            if record:
                artifact_audit.record_missing(rows)
            count += len(rows)
        return count

    def _unknown(self, *, remove: bool) -> int:
        """List the files without a job, and remove them if requested. Return how many."""
        count = 0
        for names in artifact_audit.files_without_job():
            for name in names:
                self.stdout.write(f"without a job: {name}")
            if remove:
                artifact_audit.remove_files(names)
            count += len(names)
        return count
