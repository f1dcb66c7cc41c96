"""Disk and memory that the processes of a run use."""

import contextlib
import ctypes
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Self

# The least size that an entry of a directory counts as.
ENTRY_BYTES = 4096
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Prefix of the control groups of runs.
RUN_GROUP = "sandbox-run-"

TMPFS_MAGIC = 0x01021994

_libc = ctypes.CDLL(None, use_errno=True)


# Disk


def disk_use(top: str, *, limit: int, on_entry: Callable[[], None]) -> int:
    """Return the bytes below a directory, without following links; stop once they exceed the limit.

    Each entry counts as at least one block, which bounds the walk. An unreadable folder counts as exceeding the
    limit. A walk can take seconds, so `on_entry` is called at every entry.
    """
    used = 0
    pending = [top]
    while pending and used <= limit:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    on_entry()
                    used += max(entry.stat(follow_symlinks=False).st_blocks * 512, ENTRY_BYTES)
                    if used > limit:
                        break
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return limit + 1
    return used


def is_in_memory(path: str) -> bool:
    """Return whether a folder is on a tmpfs, where files use memory."""
    statfs = ctypes.create_string_buffer(512)
    return bool(_libc.statfs(os.fsencode(path), statfs) == 0 and struct.unpack_from("l", statfs)[0] == TMPFS_MAGIC)


# Memory, limited by the kernel


class MemoryCgroup:
    """A control group (version 2) of one run, whose memory the kernel limits as a whole.

    The supervisor is in the group only while it starts the program, so this limit never kills the supervisor.
    """

    def __init__(self, folder: Path, *, home: Path) -> None:
        self.folder = folder
        self.home = home

    @classmethod
    def create(cls, limit: int, *, home: Path | None) -> Self | None:
        """Create a sibling of this process's own group and enter it. Return None if memory is not delegated."""
        if home is None or not _is_delegated(home.parent):
            return None
        group = cls(home.parent / f"{RUN_GROUP}{os.getpid()}", home=home)
        try:
            remove_abandoned_groups(home.parent)
            group.make(limit)
        except OSError:
            group.remove()
            return None
        return group

    def make(self, limit: int) -> None:
        """Create the group with its limit and move this process into it. Raises OSError."""
        # The owner of a delegated group has to do this. It fails while processes are in that group itself.
        (self.home.parent / "cgroup.subtree_control").write_text("+memory")
        self.folder.mkdir()
        (self.folder / "memory.max").write_text(str(limit))
        # Missing if the kernel does not account for swap.
        if (self.home / "memory.swap.max").exists():
            (self.folder / "memory.swap.max").write_text("0")
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def leave(self) -> None:
        """Move this process back; the processes that it started stay."""
        with contextlib.suppress(OSError):
            (self.home / "cgroup.procs").write_text(str(os.getpid()))

    def is_exceeded(self) -> bool:
        """Return whether the kernel killed a process for this limit, not for a memory shortage elsewhere."""
        words = read_words(str(self.folder / "memory.events"))
        counts = dict(zip(words[::2], words[1::2], strict=True))
        return int(counts.get("oom", 0)) > 0 and int(counts.get("oom_kill", 0)) > 0

    def remove(self) -> None:
        """Remove the group; if it is still in use, a later run removes it."""
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def own_cgroup() -> Path | None:
    """Return the folder of this process's control group (version 2); None if it has none below the root."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::/") and line != "0::/":
                mounts = [mount.split() for mount in Path("/proc/self/mounts").read_text().splitlines()]
                tops = [fields[1] for fields in mounts if fields[2] == "cgroup2"]
                return Path(tops[0] + line.removeprefix("0::")) if tops else None
    return None


def _is_delegated(group: Path) -> bool:
    """Return whether a control group has the mark that systemd gives to delegated groups.

    Write permission proves nothing: root has it everywhere, and could escape the limits of its own service.
    """
    try:
        return os.getxattr(group, "user.delegate") == b"1"
    except OSError:
        return False


def remove_abandoned_groups(parent: Path) -> None:
    """Remove the groups of killed supervisors, but not of live ones, which can be empty for a moment."""
    for folder in parent.glob(f"{RUN_GROUP}*"):
        pid = folder.name.removeprefix(RUN_GROUP)
        if pid == str(os.getpid()) or not Path("/proc", pid).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


# Memory, added up over processes


def memory_use(pids: list[int], *, limit: int) -> int:
    """Return the bytes of memory that processes use together.

    Adding up resident pages is cheap, but counts shared pages several times. Only if that sum exceeds the limit are
    shared pages divided among the processes that use them, which is expensive.
    """
    resident = sum(resident_bytes(pid) for pid in pids)
    return resident if resident <= limit else sum(proportional_bytes(pid) for pid in pids)


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes, 0 if it has ended.

    This reads the files of its threads: once the first thread has ended, the process's own file shows no memory,
    although other threads continue.
    """
    for thread in threads(pid):
        words = read_words(f"{thread}/statm")
        if words and words[1] != "0":
            return int(words[1]) * PAGE_BYTES
    return 0


def proportional_bytes(pid: int) -> int:
    """Return the resident memory of a process with each page divided by its users; undivided if that is hidden."""
    for thread in threads(pid):
        words = read_words(f"{thread}/smaps_rollup")
        if "Pss:" in words:
            return int(words[words.index("Pss:") + 1]) * 1024
    return resident_bytes(pid)


def threads(pid: int) -> list[str]:
    """Return the folders of a process's threads; none if it has ended, even during this call.

    They are strings, because a supervisor reads many of them, and making a `Path` takes longer.
    """
    with contextlib.suppress(OSError):
        return [f"/proc/{pid}/task/{thread}" for thread in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208
    return []


def read_words(path: str) -> list[str]:
    """Return the words of a small file; none if it cannot be read."""
    try:
        with open(path) as file:  # noqa: PTH123
            return file.read().split()
    except OSError:
        return []
