"""`lanes [pause|resume LANE]`: list the lanes of the queue, or pause and resume one."""

from argparse import ArgumentParser
from typing import Any

from clients.audit import COMMAND_LINE
from jobs.enums import Priority
from jobs.operations import capacity
from jobs.queue import closures
from simservice.operations.commands import BaseCommand

LANES = {lane.api_name: lane for lane in Priority}


class Command(BaseCommand):
    help = (
        "Lists the lanes of the queue with their waiting and running jobs. `pause` stops slots from claiming jobs "
        "of a lane, and `resume` ends that. Running jobs continue. Waiting jobs still fail at their queue limits."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", metavar="{pause,resume}")
        pause = actions.add_parser("pause", help="stop slots from claiming jobs of a lane")
        pause.add_argument("lane", choices=LANES)
        pause.add_argument("--reason", default="", help="reason shown to operators")
        actions.add_parser("resume", help="let slots claim jobs again").add_argument("lane", choices=LANES)

    def handle(self, *args: Any, action: str | None, lane: str = "", reason: str = "", **options: Any) -> None:
        if action == "pause":
            is_done = closures.begin(lane=LANES[lane], by=COMMAND_LINE, reason=reason)
            self.stdout.write(f"Lane {lane} is paused." if is_done else f"Lane {lane} was already paused.")
        elif action == "resume":
            is_done = closures.end(lane=LANES[lane], by=COMMAND_LINE)
            self.stdout.write(f"Lane {lane} is no longer paused." if is_done else f"Lane {lane} was not paused.")
        else:
            for state in capacity.lanes():
                waiting = "?" if state.waiting is None else state.waiting
                paused = f"  {state.pause.description}" if state.pause else ""
                self.stdout.write(f"{state.lane.api_name:10}  waiting {waiting}  running {state.running}{paused}")
