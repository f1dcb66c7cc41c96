"""The command that runs a worker: `python -m simservice.worker control --queues control`.

`celery worker` does the same, but its command line loads an interactive shell (13 MB).
"""

import argparse
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from types import FrameType

from simservice import unused_modules

unused_modules.block()
# Imported modules never become garbage, so collecting while they load would only waste a tenth of the start.
gc.disable()

from simservice import beat  # noqa: E402 - Celery loads these modules
from simservice.celery import app  # noqa: E402

KINDS = ("sim", "webhooks", "control")


def main(argv: Sequence[str]) -> int:
    """Run a worker until it is asked to stop. Return its exit status."""
    arguments = _parse(argv)
    # On SIGHUP, Celery restarts the process with these arguments.
    sys.argv[:] = ["-m", "simservice.worker", *argv]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit)
    # Celery would write its first warnings, such as that of a superuser, to the terminal.
    logging.captureWarnings(capture=True)
    app.loader.import_default_modules()
    gc.enable()
    worker = app.Worker(
        hostname=f"{arguments.name}@{socket.gethostname()}-{os.getpid()}",
        queues=arguments.queues,
        concurrency=arguments.concurrency,
        pool_cls="threads",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    if arguments.beat:
        beat.start_when_ready()
    worker.start()
    return int(worker.exitcode or 0)


def _exit(_number: int, _frame: FrameType | None) -> None:
    """End the process at once. Celery replaces this handler before the worker receives tasks and runs jobs.

    Without this handler, a worker that is the first process of a container would ignore the signal while it starts.
    Raises SystemExit.
    """
    sys.exit()


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line. Raises SystemExit after a message if it is invalid."""
    parser = argparse.ArgumentParser(prog="python -m simservice.worker", description="Run a worker.")
    parser.add_argument("name", choices=KINDS, help="kind of worker, the first part of its name")
    parser.add_argument(
        "--queues", required=True, help="queues whose tasks it runs, comma-separated; sim runs jobs"
    )
    parser.add_argument(
        "--concurrency", type=_count, default=1, help="how many tasks or jobs it runs at once (%(default)s)"
    )
    parser.add_argument("--beat", action="store_true", help="also schedule the periodic tasks")
    return parser.parse_args(argv)


def _count(text: str) -> int:
    """Parse a number of at least 1. Raises ArgumentTypeError."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1; for `sim`, set SIM_SLOTS")
    return int(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
