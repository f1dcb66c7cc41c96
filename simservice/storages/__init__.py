"""Storage of artifacts: a folder (`local`), or a bucket of an S3-compatible service (`s3`).

Both storages overwrite existing files, store files completely or not at all, and raise only OSError. They do not
know what a file means, and delete nothing by themselves: `jobs/artifacts/` decides what is stored and for how long.

Stored files are gzip files that can be read from the middle (`seekable_gzip`), so that ranges of a large report
need not be decompressed from its beginning. Start with `ArtifactStorage` below.
"""

from collections.abc import Mapping, Sequence
from typing import IO, Protocol

# The maximum number of objects that one request to a bucket can remove
MAX_REMOVED_AT_ONCE = 1000


class ReadLimits:
    """How this process waits for a bucket."""

    # Whether reads fail soon while the bucket does not respond, as in `web`, where each occupies a thread. Set it
    # before the first read.
    fails_fast = False


limits = ReadLimits()


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
