"""Processes below a launcher or a supervisor: their list, their ends and their removal."""

import contextlib
import ctypes
import os
import signal
import socket
import time

from jobs.simulator.usage import threads

PR_SET_CHILD_SUBREAPER = 36

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
        with contextlib.suppress(OSError):
            pids += map(int, (thread / "children").read_text().split())
    return pids


def descendants(*tops: int) -> list[int]:
    """Return all descendants of the given processes, by default of this process, adopted orphans included."""
    pids = list(tops) or [os.getpid()]
    count = len(pids)
    for pid in pids:
        pids += children(pid)
    return pids[count:]


def send_signal(pid: int, number: int) -> None:
    """Signal a process unless it has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def reap() -> dict[int, int]:
    """Reap all children that have ended; return their wait statuses by process id."""
    ended = {}
    try:
        while (result := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            ended[result[0]] = result[1]
    except ChildProcessError:
        pass
    return ended


def _children_remain() -> bool:
    """Return whether any child is alive or not yet reaped. Unlike a scan of /proc, this misses no child."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def kill_descendants() -> dict[int, int]:
    """Kill and reap every descendant in any session; return their wait statuses by process id.

    Descendants can fork meanwhile. This ends, because dead processes count against their limit until they are
    reaped.
    """
    ended = reap()
    while _children_remain():
        for pid in descendants():
            send_signal(pid, signal.SIGKILL)
        time.sleep(0.002)
        ended |= reap()
    return ended


def close_descriptors(*kept: int) -> None:
    """Close all descriptors of a new process except its standard streams and the given ones."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - quicker
        descriptor = int(name)
        if descriptor > 2 and descriptor not in kept:
            # The descriptor of the listing itself is closed already.
            with contextlib.suppress(OSError):
                os.close(descriptor)
