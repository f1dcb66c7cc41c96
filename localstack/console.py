"""Output of the local stack: results on stdout, progress and errors on stderr."""

import sys
from contextlib import suppress
from pathlib import Path

TAIL_LINES = 20
TAIL_BYTES = 16 * 1024


class LocalStackError(Exception):
    """The stack cannot run. The message is shown to the user."""

    status = 1


class InvalidSettings(LocalStackError):
    """Settings in the environment are invalid."""

    status = 2


def print_output(text: str) -> None:
    """Write a result to stdout and flush it."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def print_message(message: str) -> None:
    """Write a message to stderr. A closed terminal is ignored, so that the stack can still stop."""
    with suppress(OSError):
        sys.stderr.write(message + "\n")
        sys.stderr.flush()


def tail(log: Path) -> str:
    """Return the last lines of a log file, each after its program's name; an empty text if there is no file."""
    with suppress(FileNotFoundError):
        text = log.read_bytes()[-TAIL_BYTES:].decode("utf-8", "replace")
        return "\n".join(f"  {log.stem} | {line}" for line in text.splitlines()[-TAIL_LINES:])
    return ""
