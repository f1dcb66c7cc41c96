"""`simworker`: run a simulation worker."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from jobs import simulation_worker
from jobs.simulator.layers import SandboxUnavailable


class Command(BaseCommand):
    help = "Runs jobs until SIGTERM or SIGINT. Running jobs then have STOP_SECONDS to end."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--slots", type=int, default=1, help="how many jobs to run at the same time (1)")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            simulation_worker.run(options["slots"])
        except SandboxUnavailable as error:
            raise CommandError(str(error)) from error
