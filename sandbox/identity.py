"""User ids that programs run under, and the files that such a user cannot reach."""

import contextlib
import functools
import os
import secrets
import socket
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sandbox.layers import SandboxUnavailable

# The upper part of systemd's range for dynamic users, within the 65,536 ids that a container usually has.
FIRST_UID = 61184
LAST_UID = 65519


@dataclass(frozen=True)
class LeasedUser:
    """An unprivileged user id, also used as group id, that no other live run on this machine has."""

    uid: int
    lock: socket.socket

    @classmethod
    def lease(cls) -> Self | None:
        """Reserve an id; return None if the caller is an ordinary user, who cannot switch to another user.

        A name in the abstract socket namespace is the lock: the kernel frees it when the process ends. The search
        starts at a random id, so containers that share a kernel but not this namespace rarely collide.
        """
        if os.geteuid() != 0:
            return None
        count = LAST_UID - FIRST_UID + 1
        start = secrets.randbelow(count)
        for step in range(count):
            uid = FIRST_UID + (start + step) % count
            lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                lock.bind(f"\0sandbox-uid-{uid}")
            except OSError:
                lock.close()
                continue
            return cls(uid, lock)
        raise SandboxUnavailable(f"all user ids from {FIRST_UID} to {LAST_UID} are in use")

    def release(self) -> None:
        """Release the id. Call only when no process runs under it."""
        self.lock.close()


def _is_closed(path: Path) -> bool:
    """Return whether other users cannot enter a folder, or cannot read a file. A missing path is not closed."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - quicker
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not mode & (stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH)


def closed_folders(paths: Iterable[Path]) -> list[Path]:
    """Return the highest folder above each path that other users cannot enter."""
    is_closed = functools.cache(_is_closed)
    highest = set()
    for path in paths:
        for variant in {path.absolute(), Path(os.path.realpath(path))}:
            highest.update(next(([level] for level in reversed(variant.parents) if is_closed(level)), []))
    return sorted(highest)


def closed_path(paths: Iterable[Path]) -> Path | None:
    """Return the first path that other users cannot enter or read, or None."""
    return next((path for path in paths if _is_closed(path)), None)


def tasks_of_this_user() -> int:
    """Return how many threads currently count against this user's RLIMIT_NPROC."""
    user = os.geteuid()
    count = 0
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdecimal():
                with contextlib.suppress(OSError):
                    # This folder has two links of its own, and one for each thread.
                    folder = os.stat(f"/proc/{entry.name}/task")  # noqa: PTH116 - quicker
                    count += folder.st_nlink - 2 if folder.st_uid == user else 0
    return count
