"""Profiles from files and from standard input."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from simservice_client.cli.exits import CommandError, Exit

STDIN = "-"
# The service's limit of a profile
MAX_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True)
class ProfileFile:
    """A profile and what to call it in messages."""

    name: str
    text: str


def read_profiles(paths: Sequence[str]) -> list[ProfileFile]:
    """Return the profiles of all files. Raises CommandError if one of them cannot be sent."""
    if paths.count(STDIN) > 1:
        raise CommandError("Standard input can be given only once.", Exit.USAGE)
    return [read_profile(path) for path in paths]


def read_profile(path: str) -> ProfileFile:
    """Return the profile of a file, or of standard input for `-`. Raises CommandError if it cannot be sent."""
    name = "standard input" if path == STDIN else path
    content = _read(path, name)
    if len(content) > MAX_BYTES:
        raise CommandError(f"{name} is larger than 2 MB ({MAX_BYTES:,} bytes), the limit of a profile.", Exit.LOCAL)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CommandError(f"{name} is not UTF-8: see line {line}.", Exit.LOCAL) from None
    if not text.strip():
        raise CommandError(f"{name} is empty.", Exit.LOCAL)
    return ProfileFile(name, text)


def _read(path: str, name: str) -> bytes:
    """Return the content of a file, at most one byte more than the limit."""
    try:
        if path == STDIN:
            if sys.stdin is None:
                raise CommandError("There is no standard input.", Exit.LOCAL)
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}", Exit.LOCAL) from None
    except ValueError:
        raise CommandError(f"{name} is not the name of a file.", Exit.LOCAL) from None
