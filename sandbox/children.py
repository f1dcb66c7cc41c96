"""Processes below a launcher or a supervisor: their list, their ends and their removal."""

import contextlib
import ctypes
import os
import resource
import signal
import socket
import time
from collections.abc import Collection
from typing import NamedTuple

from sandbox.usage import read_words, threads

PR_SET_CHILD_SUBREAPER = 36

# Between attempts to kill processes that do not end at once.
FIRST_PAUSE_SECONDS = 0.002
LONGEST_PAUSE_SECONDS = 0.5

_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make this process the new parent of every descendant whose parent ends (`PR_SET_CHILD_SUBREAPER`)."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, *map(ctypes.c_ulong, (1, 0, 0, 0)))


def watch_children() -> tuple[socket.socket, socket.socket]:
    """Return a socket that becomes readable when a child ends, and its other end, which must stay open."""
    wakeup, notify = socket.socketpair()
    notify.settimeout(0)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(notify.fileno(), warn_on_full_buffer=False)
    return wakeup, notify


def children(pid: int) -> list[int]:
    """Return the children of all threads of a process; none if it has ended."""
    pids: list[int] = []
    for thread in threads(pid):
        pids += map(int, read_words(f"{thread}/children"))
    return pids


def descendants(*tops: int) -> list[int]:
    """Return all descendants of the given processes, by default of this process, adopted orphans included."""
    pids = list(tops) or [os.getpid()]
    count = len(pids)
    for pid in pids:
        pids += children(pid)
    return pids[count:]


def send_signal(pid: int, number: int) -> None:
    """Signal a child of this process unless it has been reaped. A child's id is not reused before that."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class Reaped(NamedTuple):
    """A child that has ended; `used` includes the descendants that it had reaped."""

    pid: int
    status: int
    used: resource.struct_rusage


def reap() -> list[Reaped]:
    """Reap all children that have ended."""
    ended = []
    with contextlib.suppress(ChildProcessError):
        while (result := os.wait4(-1, os.WNOHANG))[0]:
            ended.append(Reaped(*result))
    return ended


def _children_remain() -> bool:
    """Return whether any child is alive or not yet reaped. Unlike a scan of /proc, this misses no child."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def kill(tops: Collection[int]) -> None:
    """Kill children of this process and all their descendants.

    The parents of descendants can reap them at any time, and their ids can be reused. Each is therefore killed
    through a descriptor that was opened before the descendants were listed again.
    """
    if not tops:
        return
    opened: dict[int, int] = {}
    for pid in descendants(*tops):
        with contextlib.suppress(OSError):
            opened[pid] = os.pidfd_open(pid)
    confirmed = set(descendants(*tops)) if opened else set()
    for pid, descriptor in opened.items():
        if pid in confirmed:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.close(descriptor)
    for pid in tops:
        send_signal(pid, signal.SIGKILL)


def next_pause(pause: float, *, has_ended: bool) -> float:
    """Return the seconds until the next attempt to kill: short while processes end, doubled while none does."""
    return FIRST_PAUSE_SECONDS if has_ended else min(2 * pause, LONGEST_PAUSE_SECONDS)


def kill_descendants() -> list[Reaped]:
    """Kill and reap every descendant in any session; return them.

    Descendants can fork meanwhile. This ends, because dead processes count against their limit until they are
    reaped.
    """
    ended = reap()
    pause = FIRST_PAUSE_SECONDS
    while _children_remain():
        kill(children(os.getpid()))
        time.sleep(pause)
        reaped = reap()
        pause = next_pause(pause, has_ended=bool(reaped))
        ended += reaped
    return ended


def close_descriptors(*kept: int) -> None:
    """Close all descriptors of a new process except its standard streams and the given ones."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - quicker
        descriptor = int(name)
        if descriptor > 2 and descriptor not in kept:
            # The descriptor of the listing itself is closed already.
            with contextlib.suppress(OSError):
                os.close(descriptor)
