"""The second stage of the launcher: gives up every right that a simulator does not need, then becomes it.

It runs as a script, directly below the first stage or inside bubblewrap, and imports nothing from the service. Its
argument is one JSON document, written by `jobs.simulator.sandbox`.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import stat
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

READY_FD = 3

PR_SET_PDEATHSIG = 1
PR_SET_SECCOMP = 22
PR_CAPBSET_READ, PR_CAPBSET_DROP = 23, 24
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

LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_CREATE_RULESET_VERSION = 1
LANDLOCK_RULE_PATH_BENEATH, LANDLOCK_RULE_NET_PORT = 1, 2
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
READ_RIGHTS = EXECUTE | READ_FILE | READ_DIR
WRITE_RIGHTS = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | MAKE_REG | MAKE_DIR | REMOVE_FILE | REMOVE_DIR | REFER
RIGHTS_OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11
# The first Landlock version that restricts signals.
LANDLOCK_SCOPES_SIGNALS = 6

# Errors of exec(2) caused by the machine or its limits, not by the file.
SHORTAGES = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.E2BIG)

libc = ctypes.CDLL(None, use_errno=True)


class RightsRemain(Exception):
    """A right could not be given up, so the simulator must not run; the message names it."""


def checked(call: Callable[..., int], *arguments: object) -> int:
    """Return the result of a C function. Raises OSError if it reports a failure."""
    result = call(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def prctl(option: int, *arguments: int) -> int:
    """Call prctl(2) with all five arguments at full width, because some options require zeros."""
    padded = (*arguments, 0, 0, 0, 0)[:4]
    return checked(libc.prctl, option, *(ctypes.c_ulong(value) for value in padded))


# The network


def leave_network() -> list[str]:
    """Move to a network namespace without interfaces; return the layers that this adds.

    An ordinary user needs a user namespace for that. It does not restrict signals, so it counts as an own identity
    only together with Landlock's scope.
    """
    if os.geteuid() == 0:
        return ["network_namespace"] if libc.unshare(CLONE_NEWNET) == 0 else []
    if libc.unshare(CLONE_NEWNET | CLONE_NEWUSER) != 0:
        return []
    is_scoped = landlock_abi() >= LANDLOCK_SCOPES_SIGNALS
    return ["network_namespace", *(["user_namespace"] if is_scoped else [])]


def open_exit(port: int) -> socket.socket:
    """Bring up this namespace's loopback interface; return a socket that listens there for the proxy."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        flags = struct.unpack_from("H", fcntl.ioctl(control, SIOCGIFFLAGS, struct.pack("16sH22x", b"lo", 0)), 16)[0]
        if not flags & IFF_UP:
            fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags | IFF_UP))
    return socket.create_server(("127.0.0.1", port))


# Folders that are closed to the simulator's identity


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Call mount(2). Raises OSError."""
    checked(libc.mount, source.encode(), os.fsencode(target), kind.encode(), flags, options.encode())


def reveal(covered: list[str], readable: list[str], writable: str) -> None:
    """Make paths below closed folders reachable, in a mount namespace of this process.

    An empty folder that everyone can enter covers each closed one, and the paths are bound into it, those in
    `readable` read-only. Only root can do this.
    """
    checked(libc.unshare, CLONE_NEWNS)
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    # Opened before anything is covered, and in the new namespace because only its own mounts can be bound.
    opened = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in sorted({*readable, writable})}
    for folder in covered:
        mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m")
    for path, descriptor in opened.items():
        bind(path, descriptor, is_writable=path == writable)
        os.close(descriptor)


def bind(path: str, descriptor: int, *, is_writable: bool) -> None:
    """Bind an opened file or folder to its own path, which may be below a covered folder."""
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


# Landlock


class RulesetAttributes(ctypes.Structure):
    """struct landlock_ruleset_attr; fields that the kernel does not know must be zero."""

    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class PathBeneath(ctypes.Structure):
    """struct landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


class NetPort(ctypes.Structure):
    """struct landlock_net_port_attr."""

    _fields_ = [("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64)]


def landlock_abi() -> int:
    """Return the kernel's Landlock version; less than 1 without Landlock."""
    return int(libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_CREATE_RULESET_VERSION))


def landlock_rights(abi: int) -> int:
    """Return all file rights that this Landlock version can restrict."""
    highest = REFER >> 1
    for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)):
        if abi >= since:
            highest = right
    return (highest << 1) - 1


def allow_path(ruleset: int, path: str, rights: int) -> None:
    """Grant rights over a path and everything below it; skip a path that does not exist."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        rights &= RIGHTS_OF_A_FILE
    add_rule(ruleset, LANDLOCK_RULE_PATH_BENEATH, PathBeneath(rights, descriptor))
    os.close(descriptor)


def add_rule(ruleset: int, kind: int, rule: ctypes.Structure) -> None:
    """landlock_add_rule(2)."""
    checked(libc.syscall, LANDLOCK_ADD_RULE, ruleset, kind, ctypes.byref(rule), 0)


def restrict_by_landlock(specification: dict[str, Any]) -> bool:
    """Allow only the named paths, TCP only to the exit, and no signals outward. Return False without Landlock."""
    abi = landlock_abi()
    if abi < 1:
        return False
    rights = landlock_rights(abi)
    attributes = RulesetAttributes(
        rights,
        BIND_TCP | CONNECT_TCP if abi >= 4 else 0,
        SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if abi >= LANDLOCK_SCOPES_SIGNALS else 0,
    )
    size = ctypes.sizeof(attributes)
    ruleset = checked(libc.syscall, LANDLOCK_CREATE_RULESET, ctypes.byref(attributes), size, 0)
    for path in specification["readable"]:
        allow_path(ruleset, path, READ_RIGHTS & rights)
    for path in specification["writable"]:
        allow_path(ruleset, path, WRITE_RIGHTS & rights)
    if abi >= 4 and specification["exit_port"]:
        add_rule(ruleset, LANDLOCK_RULE_NET_PORT, NetPort(CONNECT_TCP, specification["exit_port"]))
    checked(libc.syscall, LANDLOCK_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    return True


# Identity, capabilities and limits


def drop_bounding_set() -> None:
    """Ensure that no program executed later can gain a capability.

    A process without the right to do so has no capabilities and cannot gain any.
    """
    capability = 0
    with contextlib.suppress(OSError):
        while True:
            if prctl(PR_CAPBSET_READ, capability):
                prctl(PR_CAPBSET_DROP, capability)
            capability += 1


def become_user(uid: int) -> None:
    """Switch to an unprivileged identity permanently."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def drop_capabilities() -> None:
    """Empty the permitted, effective, inheritable and ambient sets."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    checked(libc.capset, header, (ctypes.c_uint32 * 6)())


def limit_resources(limits: dict[str, tuple[int, int]]) -> None:
    """Lower each limit, given as (soft, hard); a limit that is already lower stays."""
    for name, values in limits.items():
        kind = getattr(resource, name)
        hardest = resource.getrlimit(kind)[1]
        soft, hard = values if hardest == resource.RLIM_INFINITY else (min(v, hardest) for v in values)
        resource.setrlimit(kind, (soft, hard))


# System calls


class FilterProgram(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def restrict_system_calls(program: bytes) -> bool:
    """Install a seccomp filter. Return False if the kernel or an existing filter does not allow it."""
    filters = FilterProgram(len(program) // 8, program)
    try:
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(filters))
    except OSError:
        return False
    return True


def reset_signals() -> None:
    """Reset signals that Python or the worker's parent ignores, because exec passes ignored signals on."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def give_up_rights(specification: dict[str, Any]) -> tuple[list[str], socket.socket | None]:
    """Apply every layer that this machine offers; return their names and the exit's listening socket, if any.

    Raises RightsRemain if a required layer is missing, and OSError if one fails half-way.
    """
    layers = list(specification["layers"])
    Path("/proc/self/oom_score_adj").write_text("1000")
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if "network_namespace" not in layers:
        layers += leave_network()
    listener = None
    if specification["exit_port"]:
        if "network_namespace" not in layers:
            raise RightsRemain("game credentials need a network namespace, which this machine does not allow")
        listener = open_exit(specification["exit_port"])
    if specification["covered"]:
        reveal_or_refuse(specification)
    os.umask(0o077)
    if restrict_by_landlock(specification):
        layers.append("landlock")
    drop_bounding_set()
    if specification["uid"] is not None:
        become_user(specification["uid"])
        layers.append("own_uid")
    drop_capabilities()
    os.chdir(specification["cwd"])
    # After the change of identity, which clears it.
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    limit_resources(specification["limits"])
    layers.append("rlimits")
    # Last, because the steps above need calls that the filter refuses.
    if restrict_system_calls(bytes.fromhex(specification["seccomp"])):
        layers.append("seccomp")
    require_protection(layers, specification["demanded"])
    return layers, listener


def reveal_or_refuse(specification: dict[str, Any]) -> None:
    """Make the build and the working directory reachable. Raises RightsRemain with the name of a closed folder."""
    try:
        reveal(specification["covered"], specification["revealed"], specification["cwd"])
    except OSError as error:
        folder = specification["covered"][0]
        raise RightsRemain(
            f"other users may not pass {folder}, and this machine allows no mount namespace ({error.strerror}). "
            f"Move the build and DATA_DIR to folders that are open to others, or run: chmod o+x {folder}"
        ) from error


def require_protection(layers: list[str], demanded: dict[str, list[str]]) -> None:
    """Raise RightsRemain unless each required protection is given by one of its layers."""
    missing = [name for name, sources in demanded.items() if not set(sources) & set(layers)]
    if missing:
        raise RightsRemain(f"the sandbox lacks: {', '.join(missing)}")


def announce(first_stage: socket.socket, layers: list[str], listener: socket.socket | None) -> None:
    """Send the layers and the exit's listening socket to the first stage."""
    message = json.dumps({"layers": layers}).encode()
    socket.send_fds(first_stage, [message], [] if listener is None else [listener.fileno()])


def enter(specification: dict[str, Any]) -> NoReturn:
    """Become the simulator. If the first stage has died meanwhile, sending the layers fails and this process ends.

    The duplicate of the socket, unlike the one received, is closed by exec: that tells of success.
    """
    first_stage = socket.socket(fileno=os.dup(READY_FD))
    os.close(READY_FD)
    command = specification["command"]
    try:
        announce(first_stage, *give_up_rights(specification))
        reset_signals()
    except (RightsRemain, OSError) as error:
        refuse(first_stage, str(error))
    try:
        os.execve(command[0], command, specification["environment"])  # noqa: S606 - becomes the simulator
    except OSError as error:
        refuse(first_stage, f"{command[0]}: {error.strerror}", file_fault=error.errno not in SHORTAGES)


def refuse(first_stage: socket.socket, why: str, *, file_fault: bool = False) -> NoReturn:
    """Report to the first stage why the simulator cannot start, and whether its file is at fault; then exit."""
    first_stage.send(json.dumps({"error": why, "file_fault": file_fault}).encode())
    sys.exit(1)


if __name__ == "__main__":
    enter(json.loads(sys.argv[1]))
