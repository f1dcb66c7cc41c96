"""The command `manage.py local`: run the whole service on this machine."""

import argparse
import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from localstack import demo
from localstack.console import LocalStackError, print_message, print_output
from localstack.folder import DataFolder
from localstack.stack import CHECKOUT, Stack, running

WATCH_SECONDS = 3600.0


class StopRequested(BaseException):
    """A signal asked the stack to stop. `except Exception` does not catch it."""


def main(argv: Sequence[str]) -> int:
    """Run the stack until it is asked to stop. Return the exit status."""
    arguments = parse_arguments(argv)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _request_stop)
    try:
        with running(DataFolder(arguments.data), port=arguments.port) as stack:
            if arguments.once:
                return 0 if demo.show(stack) else 1
            if arguments.demo:
                demo.show(stack)
                print_message(f"Press Ctrl-C to stop. Logs: {arguments.data}/logs")
            else:
                _print_ready(stack)
            while True:
                stack.supervisor.watch(WATCH_SECONDS)
    except LocalStackError as error:
        print_message(str(error))
        return error.status
    except StopRequested:
        return 1 if arguments.once else 0


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line. Raises SystemExit after a message if it is invalid."""
    parser = argparse.ArgumentParser(prog="manage.py local", description="Run the whole service on this machine.")
    parser.add_argument(
        "--port", type=_port, default=8000, help="port of the web server; 0 selects a free port (%(default)s)"
    )
    parser.add_argument("--data", type=Path, default=CHECKOUT / ".local", help="folder of all data (.local)")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--once", action="store_true", help="stop after the demo job; exit with 1 if it failed")
    mode.add_argument(
        "--no-demo", dest="demo", action="store_false", help="run no demo job, and print one READY line for scripts"
    )
    return parser.parse_args(argv)


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError("the port must be between 0 and 65535")
    return number


def _request_stop(*_: object) -> NoReturn:
    raise StopRequested


def _print_ready(stack: Stack) -> None:
    """Print the line that scripts wait for: READY and a JSON object."""
    addresses = {
        "url": stack.url,
        "apiKey": stack.api_key,
        "user": stack.user,
        "password": stack.password,
        "databaseUrl": stack.database_url,
        "redisUrl": stack.redis_url,
    }
    print_output(f"READY {json.dumps(addresses)}")
