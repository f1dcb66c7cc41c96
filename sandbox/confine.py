"""The last step of a start: drop all privileges that the program does not need, and execute it.

It runs in a new process below the supervisor (`sandbox.supervisor`). If bubblewrap is used, it first joins
bubblewrap's namespaces, which the supervisor has opened. Its specification is written by `sandbox.confinement`.
"""

import ctypes
import errno
import fcntl
import functools
import json
import os
import resource
import signal
import socket
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from sandbox import landlock, namespaces
from sandbox.landlock import checked
from sandbox.layers import Layer

PR_SET_PDEATHSIG = 1
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_REC, MS_PRIVATE = 1024, 2048, 4096, 16384, 1 << 18
# Flags that a bind mount must keep from its source.
MS_KEPT = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME

SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914
IFF_UP = 1

# Errors of exec(2) caused by the machine or its limits, not by the file.
SHORTAGES = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.E2BIG)

_libc = ctypes.CDLL(None, use_errno=True)
# All five arguments have their full width, because some options require zeros.
_libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)


class _MissingProtection(Exception):
    """A required protection is missing, so the program must not run; the message names it."""


def prctl(option: int, *arguments: int) -> int:
    """Call prctl(2); missing arguments are zeros. Raises OSError."""
    return checked(_libc.prctl, option, *(*arguments, 0, 0, 0, 0)[:4])


# The network


def leave_network() -> list[str]:
    """Move to a network namespace without interfaces; return the layers that this adds.

    An ordinary user needs a user namespace for that. It does not restrict signals, so it counts as an identity of
    its own only if Landlock restricts them.
    """
    if os.geteuid() == 0:
        return [Layer.NETWORK_NAMESPACE] if _libc.unshare(CLONE_NEWNET) == 0 else []
    if _libc.unshare(CLONE_NEWNET | CLONE_NEWUSER) != 0:
        return []
    restricts_signals = landlock.version() >= landlock.SIGNALS_SINCE
    return [Layer.NETWORK_NAMESPACE, *([Layer.USER_NAMESPACE] if restricts_signals else [])]


def _open_proxy_socket(port: int) -> socket.socket:
    """Bring up this namespace's loopback interface; return a socket that listens there for the proxy."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        flags = struct.unpack_from("H", fcntl.ioctl(control, SIOCGIFFLAGS, struct.pack("16sH22x", b"lo", 0)), 16)[0]
        if not flags & IFF_UP:
            fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags | IFF_UP))
    return socket.create_server(("127.0.0.1", port))


# Folders that the program's identity cannot enter


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Call mount(2). Raises OSError."""
    checked(_libc.mount, source.encode(), os.fsencode(target), kind.encode(), flags, options.encode())


def reveal(covered: list[str], readable: list[str], writable: str) -> None:
    """Make paths below closed folders reachable, in a mount namespace of this process.

    Each closed folder is covered by an empty one that everyone can enter, and the paths are mounted in it, those in
    `readable` read-only. Only root can do this. Raises OSError.
    """
    checked(_libc.unshare, CLONE_NEWNS)
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    # Opened before anything is covered, and in the new namespace because only its own mounts can be bound.
    opened = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in sorted({*readable, writable})}
    for folder in covered:
        mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m")
    for path, descriptor in opened.items():
        _bind(path, descriptor, is_writable=path == writable)
        os.close(descriptor)


def _bind(path: str, descriptor: int, *, is_writable: bool) -> None:
    """Mount an opened file or folder at its own path, which may be below a covered folder."""
    source = f"/proc/self/fd/{descriptor}"
    if not os.path.lexists(path):
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)  # noqa: PTH103, PTH120 - Path has no such mode
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            Path(path).mkdir(mode=0o755)
        else:
            Path(path).touch(mode=0o644)
    mount(source, path, "", MS_BIND)
    if not is_writable:
        kept = os.fstatvfs(descriptor).f_flag & MS_KEPT
        mount("none", path, "", MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


# Identity, capabilities and limits


def become_user(uid: int) -> None:
    """Switch to an unprivileged identity permanently."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def drop_capabilities() -> None:
    """Empty the permitted, effective, inheritable and ambient sets."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    checked(_libc.capset, header, (ctypes.c_uint32 * 6)())


def limit_resources(limits: dict[str, tuple[int, int]]) -> None:
    """Lower each limit, given as (soft, hard); a limit that is already lower stays."""
    for name, values in limits.items():
        kind = getattr(resource, name)
        hardest = resource.getrlimit(kind)[1]
        soft, hard = values if hardest == resource.RLIM_INFINITY else (min(v, hardest) for v in values)
        resource.setrlimit(kind, (soft, hard))


# System calls


class _FilterProgram(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def restrict_system_calls(program: bytes) -> bool:
    """Install a seccomp filter. Return False if the kernel or an existing filter does not allow it."""
    filters = _FilterProgram(len(program) // 8, program)
    try:
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(filters))
    except OSError:
        return False
    return True


@functools.cache
def ignored_signals() -> list[int]:
    """Return the signals that Python, the launcher or the caller's parent ignores; compute them before forking."""
    return [int(each) for each in signal.valid_signals() if signal.getsignal(each) == signal.SIG_IGN]


def _drop_rights(
    specification: dict[str, Any], supervisor: socket.socket, opened: Mapping[str, int], *, is_adopted: bool
) -> tuple[list[str], socket.socket | None]:
    """Apply every layer that this machine offers; return the layers and the proxy's listening socket, if any.

    Raises _MissingProtection or NotJoined if a required protection is missing, and OSError if a layer fails
    half-way.
    """
    Path("/proc/self/oom_score_adj").write_text("1000")
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    layers, listener = _enter_namespaces(specification, opened, is_adopted=is_adopted)
    if specification["covered"]:
        _reveal_covered(specification)
    os.umask(0o077)
    if landlock.restrict(
        readable=specification["readable"], writable=specification["writable"], tcp_port=specification["proxy_port"]
    ):
        layers.append(Layer.LANDLOCK)
    # The bounding set: no program executed later gains a capability. A process that may not change it has none.
    capability = 0
    while _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    if specification["uid"] is not None:
        become_user(specification["uid"])
        layers.append(Layer.OWN_UID)
    drop_capabilities()
    os.chdir(specification["cwd"])
    # Wait until the supervisor is the parent of this process.
    if is_adopted and not supervisor.recv(16):
        raise OSError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
    # After the change of identity, which clears it.
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    limit_resources(specification["limits"])
    layers.append(Layer.RLIMITS)
    # Last, because the steps above need calls that the filter refuses.
    if restrict_system_calls(bytes.fromhex(specification["seccomp"])):
        layers.append(Layer.SECCOMP)
    missing = [name for name, sources in specification["required"].items() if not set(sources) & set(layers)]
    if missing:
        raise _MissingProtection(f"the sandbox lacks: {', '.join(missing)}")
    return layers, listener


def _enter_namespaces(
    specification: dict[str, Any], opened: Mapping[str, int], *, is_adopted: bool
) -> tuple[list[str], socket.socket | None]:
    """Enter bubblewrap or only leave the network; return the layers and the proxy's listening socket, if any."""
    layers = list(specification["layers"])
    if opened:
        namespaces.join(opened)
        # If the supervisor could not fork into the process namespace, this process can.
        if is_adopted and os.fork():
            os._exit(0)
    else:
        layers += leave_network()
    if not specification["proxy_port"]:
        return layers, None
    if Layer.NETWORK_NAMESPACE not in layers:
        raise _MissingProtection("a proxy needs a network namespace, which this machine does not allow")
    return layers, _open_proxy_socket(specification["proxy_port"])


def _reveal_covered(specification: dict[str, Any]) -> None:
    """Make the program and the working directory reachable. Raises _MissingProtection."""
    try:
        reveal(specification["covered"], specification["revealed"], specification["cwd"])
    except OSError as error:
        folder = specification["covered"][0]
        raise _MissingProtection(
            f"other users cannot enter {folder}, and this machine allows no mount namespaces ({error.strerror}). "
            f"Move the program and its directory to folders that other users can enter, or run: chmod o+x {folder}"
        ) from error


def confine_and_exec(
    specification: dict[str, Any], supervisor: socket.socket, opened: Mapping[str, int], *, is_adopted: bool
) -> NoReturn:
    """Execute the program. If the supervisor has died meanwhile, sending the layers fails and this process ends.

    With `is_adopted`, this process forks inside the namespaces, and the supervisor adopts the new process.

    Executing the program closes the socket to the supervisor, which signals success.
    """
    command = specification["command"]
    try:
        layers, listener = _drop_rights(specification, supervisor, opened, is_adopted=is_adopted)
        passed = [] if listener is None else [listener.fileno()]
        socket.send_fds(supervisor, [json.dumps({"layers": layers}).encode()], passed)
        # Exec passes ignored and blocked signals on.
        for number in ignored_signals():
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
    except (_MissingProtection, namespaces.NotJoined, OSError) as error:
        _fail(supervisor, str(error))
    try:
        os.execve(command[0], command, specification["environment"])  # noqa: S606 - becomes the program
    except OSError as error:
        _fail(supervisor, f"{command[0]}: {error.strerror}", file_fault=error.errno not in SHORTAGES)


def _fail(supervisor: socket.socket, error: str, *, file_fault: bool = False) -> NoReturn:
    """Report to the supervisor why the program cannot start, and whether its file is the cause; then exit."""
    supervisor.send(json.dumps({"error": error, "file_fault": file_fault}).encode())
    os._exit(1)
