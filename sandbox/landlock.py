"""Landlock: access rules for files, TCP ports and signals that a process applies to itself (landlock(7))."""

import ctypes
import os
import stat
from collections.abc import Callable, Sequence

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CREATE_RULESET_VERSION = 1
RULE_PATH_BENEATH, RULE_NET_PORT = 1, 2
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
READ_RIGHTS = EXECUTE | READ_FILE | READ_DIR
WRITE_RIGHTS = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | MAKE_REG | MAKE_DIR | REMOVE_FILE | REMOVE_DIR | REFER
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11
# The first Landlock versions that restrict TCP, and signals.
TCP_SINCE = 4
SIGNALS_SINCE = 6

_libc = ctypes.CDLL(None, use_errno=True)


class _RulesetAttributes(ctypes.Structure):
    """struct landlock_ruleset_attr; fields that the kernel does not know must be zero."""

    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    """struct landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


class _NetPort(ctypes.Structure):
    """struct landlock_net_port_attr."""

    _fields_ = [("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64)]


def checked(call: Callable[..., int], *arguments: object) -> int:
    """Return the result of a C function. Raises OSError if it reports a failure."""
    result = call(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def version() -> int:
    """Return the kernel's Landlock version; less than 1 without Landlock."""
    return int(_libc.syscall(CREATE_RULESET, None, 0, CREATE_RULESET_VERSION))


def restrict(*, readable: Sequence[str], writable: Sequence[str], tcp_port: int | None) -> bool:
    """Restrict this process to some paths, one TCP port to connect to, and signals to its own processes.

    Return False without Landlock. Raises OSError if the kernel has it but refuses a rule.
    """
    abi = version()
    if abi < 1:
        return False
    rights = file_rights(abi)
    attributes = _RulesetAttributes(
        rights,
        BIND_TCP | CONNECT_TCP if abi >= TCP_SINCE else 0,
        SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if abi >= SIGNALS_SINCE else 0,
    )
    size = ctypes.sizeof(attributes)
    ruleset = checked(_libc.syscall, CREATE_RULESET, ctypes.byref(attributes), size, 0)
    for path in readable:
        _allow_path(ruleset, path, READ_RIGHTS & rights)
    for path in writable:
        _allow_path(ruleset, path, WRITE_RIGHTS & rights)
    if abi >= TCP_SINCE and tcp_port:
        _add_rule(ruleset, RULE_NET_PORT, _NetPort(CONNECT_TCP, tcp_port))
    checked(_libc.syscall, RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    return True


def file_rights(abi: int) -> int:
    """Return all file rights that this Landlock version can restrict."""
    highest = REFER >> 1
    for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)):
        if abi >= since:
            highest = right
    return (highest << 1) - 1


def _allow_path(ruleset: int, path: str, rights: int) -> None:
    """Grant rights over a path and everything below it; skip a path that does not exist."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        rights &= FILE_RIGHTS
    _add_rule(ruleset, RULE_PATH_BENEATH, _PathBeneath(rights, descriptor))
    os.close(descriptor)


def _add_rule(ruleset: int, kind: int, rule: ctypes.Structure) -> None:
    checked(_libc.syscall, ADD_RULE, ruleset, kind, ctypes.byref(rule), 0)
