"""Storage of artifacts: a folder, or a bucket of an S3-compatible service.

Both storages overwrite existing files, store files completely or not at all, and raise only OSError.
"""

from collections.abc import Mapping, Sequence
from typing import IO, Protocol

# The maximum number of objects that one request to a bucket can remove
MAX_REMOVED_AT_ONCE = 1000
# How long `web` waits for each response of a bucket, because every download in progress occupies a thread
WEB_READ_SECONDS = 3


class Limits:
    """How this process waits for a bucket."""

    read_seconds = 30
    # Whether reads fail at once while the bucket does not respond
    fails_fast = False


limits = Limits()


def fail_fast() -> None:
    """Let reads of this process fail soon if the bucket does not respond. Call before the first read."""
    limits.read_seconds, limits.fails_fast = WEB_READ_SECONDS, True


class ArtifactStorage(Protocol):
    """Methods of both storages that Django's storages lack."""

    def save_many(self, files: Mapping[str, IO[bytes]]) -> None:
        """Save files by name, each from its current position. Raises OSError; some files may then be saved."""

    def delete_many(self, names: Sequence[str]) -> None:
        """Remove up to `MAX_REMOVED_AT_ONCE` files; ignore missing ones. Raises OSError if one is not removed."""

    def open_range(self, name: str, start: int, stop: int | None) -> IO[bytes]:
        """Open a file for reading once, from byte `start` up to `stop` (None: to its end).

        Raises FileNotFoundError if the file is missing, another OSError if the storage does not respond.
        """
