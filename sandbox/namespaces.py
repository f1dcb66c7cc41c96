"""Namespaces that bubblewrap creates and the confined process joins.

Bubblewrap runs a pause process, which holds the namespaces and does nothing else. A process of the launcher joins
them (setns(2)), so no interpreter has to start inside. Run as a script, this module tests whether that works here:
its arguments are bubblewrap's command line.
"""

import contextlib
import ctypes
import os
import socket
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

if __name__ == "__main__":
    # Python does not find the project by itself, because this script runs in isolated mode (`-I`).
    sys.path.append(str(Path(__file__).parents[1]))

from sandbox.landlock import checked

# The pause process writes a line when it runs and for each line that it reads. It ends when it reads EOF.
PAUSE = ("/bin/sh", "-c", "while echo && read -r _; do :; done")
ANSWER_SECONDS = 10.0
# The user namespace comes before these, because it gives the rights to join them.
CREATED = ("mnt", "net", "ipc", "uts", "pid")
# Bubblewrap creates it on every kernel that has it (`--unshare-cgroup-try`).
CGROUP = "cgroup"

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


def open_namespaces(pause: socket.socket, *, has_user_namespace: bool) -> dict[str, int]:
    """Wait for a pause process and return descriptors of its namespaces by name, in the order to join them.

    Raises NotJoined unless bubblewrap has created every namespace that it should have.
    """
    pid = pause_pid(pause)
    opened: dict[str, int] = {}
    try:
        for name in _names(has_user_namespace=has_user_namespace):
            opened[name] = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
            if os.path.samestat(os.fstat(opened[name]), os.stat(f"/proc/self/ns/{name}")):  # noqa: PTH116 - quicker
                raise NotJoined(f"bubblewrap has not created a {name} namespace")
        require_answer(pause, pid)
    except (OSError, NotJoined) as error:
        close(opened)
        raise error if isinstance(error, NotJoined) else _not_joined(error) from error
    return opened


def join(opened: Mapping[str, int]) -> None:
    """Join namespaces and close their descriptors. A process namespace applies only to new children.

    Raises NotJoined.
    """
    try:
        for descriptor in opened.values():
            checked(_libc.setns, descriptor, 0)
    except OSError as error:
        raise _not_joined(error) from error
    close(opened)


@contextlib.contextmanager
def children_in(process_namespace: int) -> Iterator[None]:
    """Let processes that are forked inside the block start in a process namespace. Raises NotJoined."""
    own = _own_process_namespace()
    try:
        join({"pid": os.dup(process_namespace)})
        yield
    finally:
        checked(_libc.setns, own, 0)
        os.close(own)


def can_return() -> bool:
    """Return whether this process can leave `children_in` again.

    Only root can, and not in a user namespace that shares its process namespace with the outside.
    """
    own = _own_process_namespace()
    try:
        checked(_libc.setns, own, 0)
    except OSError:
        return False
    finally:
        os.close(own)
    return True


def _own_process_namespace() -> int:
    return os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)


def close(opened: Mapping[str, int]) -> None:
    """Close descriptors of namespaces."""
    for descriptor in opened.values():
        os.close(descriptor)


def _names(*, has_user_namespace: bool) -> list[str]:
    has_cgroups = Path("/proc/self/ns", CGROUP).exists()
    return [*(["user"] if has_user_namespace else []), *CREATED, *([CGROUP] if has_cgroups else [])]


def _not_joined(error: OSError) -> NotJoined:
    return NotJoined(f"the namespaces of bubblewrap cannot be joined ({error.strerror})")


def pause_pid(pause: socket.socket) -> int:
    """Wait until the pause process has written a line, inside a complete sandbox; return its process id."""
    pause.settimeout(ANSWER_SECONDS)
    line, extra, _, _ = pause.recvmsg(1, socket.CMSG_SPACE(struct.calcsize("3i")))
    if not line:
        raise NotJoined("bubblewrap could not create its sandbox")
    return int(struct.unpack("3i", extra[0][2])[0])


def require_answer(pause: socket.socket, pid: int) -> None:
    """Let a pause process write another line. Raises NotJoined unless it still has this process id.

    Otherwise, it could have ended and another process could have its id.
    """
    pause.send(b"\n")
    if pause_pid(pause) != pid:
        raise NotJoined("bubblewrap's pause process has ended")


if __name__ == "__main__":
    try:
        join(open_namespaces(start_bubblewrap(sys.argv[1:], stderr=2), has_user_namespace=os.geteuid() != 0))
    except (NotJoined, OSError) as error:
        sys.exit(str(error))
