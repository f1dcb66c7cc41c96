"""Where files are kept: a folder, or a bucket of an S3-compatible service.

Both replace a file that has the same name, keep no part of one whose saving failed, and fail with OSError alone.
"""

from collections.abc import Sequence
from typing import IO, Protocol

# What one request to a bucket can remove.
REMOVED_AT_ONCE = 1000


class ArtifactStorage(Protocol):
    """What both kinds can do beyond Django's storages."""

    def delete_many(self, names: Sequence[str]) -> None:
        """Remove up to `REMOVED_AT_ONCE` files, those that are there. Raises OSError when one of them stays."""

    def open_range(self, name: str, start: int, stop: int | None) -> IO[bytes]:
        """Open a file to be read once from byte `start`; what comes from `stop` on is not needed.

        Raises FileNotFoundError when there is no such file, another OSError when the storage does not answer.
        """
