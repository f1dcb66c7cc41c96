"""How the local stack speaks to its user: answers on stdout, news of what it does on stderr."""

import sys
from contextlib import suppress
from pathlib import Path

TAIL_LINES = 20
TAIL_BYTES = 16 * 1024


class LocalStackError(Exception):
    """The stack cannot run; the message is the sentence its user reads."""


def say(text: str, *, end: str = "\n") -> None:
    """Writes an answer on stdout, at once."""
    sys.stdout.write(text + end)
    sys.stdout.flush()


def tell(message: str) -> None:
    """Writes news on stderr; a terminal that is gone must not keep the stack from stopping."""
    with suppress(OSError):
        sys.stderr.write(message + "\n")
        sys.stderr.flush()


def tail(log: Path) -> str:
    """The last lines of a log file, each behind the name of who wrote it; empty when there are none."""
    with suppress(FileNotFoundError):
        text = log.read_bytes()[-TAIL_BYTES:].decode("utf-8", "replace")
        return "\n".join(f"  {log.stem} | {line}" for line in text.splitlines()[-TAIL_LINES:])
    return ""
