"""Run a command of simctl again and again, each time interrupted one line later in a lock of its HTTP client.

It is the lock around httpcore's connections: if Ctrl-C comes in one of its lines, the synchronous client never
releases it. Print the exit status of each run, -14 for one that did not end, until a run completes.
"""

import itertools
import os
import signal
import sys
import types

from simservice_client.cli import main
from simservice_client.cli.exits import Exit

LOCKS = ("ThreadLock.", "AsyncThreadLock.")
PATIENCE_SECONDS = 60


class Interruption:
    """A trace function that presses Ctrl-C before the given line of the lock."""

    def __init__(self, lines: int) -> None:
        self.lines = lines

    def __call__(self, frame: types.FrameType, event: str, _: object) -> "Interruption | None":
        if not frame.f_code.co_qualname.startswith(LOCKS):
            return None
        if event == "line":
            self.lines -= 1
            if self.lines == 0:
                signal.raise_signal(signal.SIGINT)
        return self


def status_after(lines: int, arguments: list[str]) -> int:
    """Return the status of a command that is interrupted before the given line."""
    process = os.fork()
    if process == 0:
        signal.alarm(PATIENCE_SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.settrace(Interruption(lines))
        os._exit(main(arguments))
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for lines in itertools.count(1):
        status = status_after(lines, sys.argv[1:])
        print(status, flush=True)  # noqa: T201 - the statuses are the result
        if status == Exit.COMPLETED:
            break
