"""Which sharded stages the slots of this machine can help with: those whose build has the same file here."""

import hashlib
from functools import lru_cache
from pathlib import Path

from jobs.models import Build, ShardedStage
from jobs.queue.expiring_set import ExpiringSet


def sha256_of(build: Build) -> str:
    """Return the SHA-256 of a build's executable on this machine, as hexadecimal digits. Raises OSError.

    The file is read again only if it has changed.
    """
    found = Path(build.executable).stat()
    return _sha256(build.executable, found.st_ino, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=64)
def _sha256(path: str, _inode: int, _size: int, _changed_ns: int) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_same(stage: ShardedStage) -> bool:
    """Return whether this machine has the same executable of the stage's build as the conductor."""
    try:
        return sha256_of(stage.build) == stage.executable_sha256
    except OSError:
        return False


# Stages that this process leaves to others. A machine that has received the right file helps after this time.
skipped = ExpiringSet[int](seconds=60)
