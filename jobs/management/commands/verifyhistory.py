"""`verifyhistory`: check that the recorded history of jobs could have happened."""

from argparse import ArgumentTypeError
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser

from jobs.history.replay import Replay
from simservice.operations.commands import BaseCommand


class Command(BaseCommand):
    help = (
        "Replays the recorded events, runs, credits and webhook deliveries of jobs against the rules of "
        "docs/reference/history-rules.md. Lists the rows that could not have happened, first job first; the exit "
        "status is 1 if there are any. Only reads, and is safe to run while the service runs."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        for name, what in (("--since", "at or after"), ("--until", "before")):
            parser.add_argument(
                name, type=moment, metavar="TIME", help=f"only jobs submitted {what} this time (ISO 8601, UTC)"
            )
        parser.add_argument("--json", action="store_true", help="list each row as a line of JSON")
        parser.add_argument("--limit", type=int, default=100, help="stop after this many rows (default: 100)")

    def handle(self, *args: Any, **options: Any) -> None:
        replay = Replay(since=options["since"], until=options["until"])
        found = 0
        for deviation in replay.deviations():
            self.stdout.write(deviation.as_json() if options["json"] else str(deviation))
            found += 1
            if found >= options["limit"]:
                break
        checked = f"Jobs checked: {replay.count.jobs:,}, with {replay.count.rows:,} rows."
        if found:
            raise CommandError(f"{found} {'row' if found == 1 else 'rows'} could not have happened. {checked}")
        if not options["json"]:
            self.stdout.write(f"No deviations found. {checked}")


def moment(text: str) -> datetime:
    """Return a time of the command line. Raises ArgumentTypeError."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a time such as 2026-11-01 or 2026-11-01T12:00.") from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
