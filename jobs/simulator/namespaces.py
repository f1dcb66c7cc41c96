"""Namespaces that bubblewrap creates and the second stage joins.

Bubblewrap runs a pause process, which holds the namespaces and does nothing else. A process of the launcher joins
them (setns(2)), so no interpreter has to start inside. Run as a script, this module tests whether that works here:
its arguments are bubblewrap's command line.
"""

import ctypes
import os
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    # Python does not find the project by itself, because this script runs in isolated mode (`-I`).
    sys.path.append(str(Path(__file__).parents[2]))

from jobs.simulator.landlock import checked

# The pause process writes a line when it runs, and ends when it reads EOF.
PAUSE = ("/bin/sh", "-c", "echo && read -r _")
# The user namespace comes first, because it gives the rights to join the others.
CREATED = ("mnt", "net", "ipc", "uts", "pid")

_libc = ctypes.CDLL(None, use_errno=True)


class NotJoined(Exception):
    """A namespace of bubblewrap is missing or cannot be joined; the message says why."""


def start_bubblewrap(command: Sequence[str], *, stderr: int) -> socket.socket:
    """Start bubblewrap with a pause process, which ends when all copies of the returned socket are closed."""
    ours, theirs = socket.socketpair()
    # The kernel adds the pause process's id, as seen from here, to the line that it writes.
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    streams = ((theirs.fileno(), 0), (theirs.fileno(), 1), (stderr, 2))
    with theirs:
        os.posix_spawn(
            command[0],
            [*command, "--", *PAUSE],
            {},
            file_actions=[(os.POSIX_SPAWN_DUP2, source, target) for source, target in streams],
            setsid=True,
        )
    return ours


def join(pause: socket.socket, *, has_user_namespace: bool) -> None:
    """Join the namespaces of a pause process. The process namespace applies only to new children of this process.

    Raises NotJoined unless bubblewrap has created every namespace that it should have.
    """
    folder = f"/proc/{_pause_pid(pause)}/ns"
    names = [*(["user"] if has_user_namespace else []), *CREATED]
    try:
        opened = {name: os.open(f"{folder}/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names}
        for name, descriptor in opened.items():
            if os.path.samestat(os.fstat(descriptor), os.stat(f"/proc/self/ns/{name}")):  # noqa: PTH116 - quicker
                raise NotJoined(f"bubblewrap has not created a {name} namespace")
        for descriptor in opened.values():
            checked(_libc.setns, descriptor, 0)
            os.close(descriptor)
    except OSError as error:
        raise NotJoined(f"the namespaces of bubblewrap cannot be joined ({error.strerror})") from error


def _pause_pid(pause: socket.socket) -> int:
    """Wait until the pause process runs, inside a complete sandbox; return its process id."""
    line, extra, _, _ = pause.recvmsg(64, socket.CMSG_SPACE(struct.calcsize("3i")))
    if not line:
        raise NotJoined("bubblewrap could not create its sandbox")
    return int(struct.unpack("3i", extra[0][2])[0])


if __name__ == "__main__":
    try:
        join(start_bubblewrap(sys.argv[1:], stderr=2), has_user_namespace=os.geteuid() != 0)
    except NotJoined as error:
        sys.exit(str(error))
