"""`manage.py local`: the stack on one machine, with a demonstration or one line for scripts."""

import argparse
import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from localstack import demo
from localstack.console import LocalStackError, say, tell
from localstack.folder import DataFolder
from localstack.redis_server import free_port
from localstack.stack import CHECKOUT, Stack, running

WATCH_SECONDS = 3600.0


class StopRequested(BaseException):
    """A signal asked the stack to stop; no handler of ordinary errors may swallow it."""


def main(argv: Sequence[str]) -> int:
    """Runs the stack until it is asked to stop; returns the exit status."""
    arguments = parse_arguments(argv)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _request_stop)
    try:
        with running(DataFolder(arguments.data), port=arguments.port or free_port()) as stack:
            if arguments.once:
                return 0 if demo.show(stack) else 1
            _serve(stack, arguments.data, with_demo=arguments.demo)
    except LocalStackError as error:
        tell(str(error))
        return 1
    except StopRequested:
        return 1 if arguments.once else 0


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Raises SystemExit, after a message, on arguments it does not know."""
    parser = argparse.ArgumentParser(prog="manage.py local", description=__doc__)
    parser.add_argument(
        "--port", type=_port, default=8000, help="web server's port, 0 for a free one (%(default)s)"
    )
    parser.add_argument("--data", type=Path, default=CHECKOUT / ".local", help="folder for all data (.local)")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--once", action="store_true", help="stop when the demonstration's job has ended")
    mode.add_argument(
        "--no-demo", dest="demo", action="store_false", help="print one READY line instead of a demonstration"
    )
    return parser.parse_args(argv)


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError("a port is a number from 0 to 65535")
    return number


def _request_stop(*_: object) -> NoReturn:
    raise StopRequested


def _serve(stack: Stack, data: Path, *, with_demo: bool) -> NoReturn:
    """Serves until a signal ends it."""
    if with_demo:
        demo.show(stack)
        tell(f"Serving until Ctrl-C; the logs are in {data}/logs")
    else:
        say(ready_line(stack))
    while True:
        stack.supervisor.watch(WATCH_SECONDS)


def ready_line(stack: Stack) -> str:
    """What scripts wait for: the word READY and one JSON object."""
    facts = {
        "url": stack.url,
        "apiKey": stack.api_key,
        "user": stack.user,
        "password": stack.password,
        "databaseUrl": stack.database_url,
        "redisUrl": stack.redis_url,
    }
    return f"READY {json.dumps(facts)}"
