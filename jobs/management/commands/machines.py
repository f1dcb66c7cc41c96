"""`machines [drain|resume HOST]`: list the simulation machines, or drain and resume one."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from clients.audit import COMMAND_LINE
from jobs.operations import capacity
from jobs.queue import closures
from simservice.operations.commands import BaseCommand


class Command(BaseCommand):
    help = (
        "Lists the simulation machines with their workers, slots and running simulations. `drain` stops a machine "
        "from claiming jobs: what it runs ends within STOP_SECONDS or returns to the queue, and its workers keep "
        "running. `resume` ends that."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", metavar="{drain,resume}")
        drain = actions.add_parser("drain", help="stop a machine from claiming jobs, and hand back what it runs")
        drain.add_argument("host", help="host name of the machine, as the list shows it")
        drain.add_argument("--reason", default="", help="reason shown to operators")
        resume = actions.add_parser("resume", help="let a machine claim jobs again")
        resume.add_argument("host", help="host name of the machine")

    def handle(self, *args: Any, action: str | None, host: str = "", reason: str = "", **options: Any) -> None:
        if action == "drain":
            self.drain(host, reason)
        elif action == "resume":
            is_done = closures.end(host=host, by=COMMAND_LINE)
            self.stdout.write(
                f"Machine {host} is no longer drained." if is_done else f"Machine {host} was not drained."
            )
        else:
            for state in capacity.machines():
                drained = f"  {state.drain.description}" if state.drain else ""
                workers, slots = ("?" if number is None else number for number in (state.workers, state.slots))
                numbers = f"workers {workers}  slots {slots}  running {state.running}"
                self.stdout.write(f"{state.host}  {numbers}{drained}")

    def drain(self, host: str, reason: str) -> None:
        """Drain a machine. Say so if none of its workers is live, because the name may be wrong."""
        try:
            is_done = closures.begin(host=host, by=COMMAND_LINE, reason=reason)
        except closures.InvalidHost:
            raise CommandError(f"{host!r} is not a host name.") from None
        self.stdout.write(f"Machine {host} is drained." if is_done else f"Machine {host} was already drained.")
        workers = {state.host: state.workers for state in capacity.machines()}
        if workers.get(host) == 0:
            used = ", ".join(other for other in workers if workers[other]) or "none"
            self.stderr.write(f"No live worker runs on {host}. Machines with live workers: {used}.")
