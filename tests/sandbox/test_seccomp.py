"""The seccomp filter, evaluated like in the kernel, for both architectures."""

import errno
import operator
import re
import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from sandbox import seccomp

MACHINES = list(seccomp.ARCHITECTURES)
ALLOWED, KILLED = seccomp.ALLOW, seccomp.KILL_PROCESS
DENIED, UNKNOWN = seccomp.ERRNO | errno.EPERM, seccomp.ERRNO | errno.ENOSYS
NO_FAMILY = seccomp.ERRNO | errno.EAFNOSUPPORT
# read, write, execve, exit_group, futex, brk, getrandom
HARMLESS = {"x86_64": (0, 1, 59, 231, 202, 12, 318), "aarch64": (63, 64, 221, 94, 98, 214, 278)}
HEADERS = {"x86_64": "x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "asm-generic/unistd.h"}
CHECKED = ("clone", "socket", "socketpair", "mmap", "openat", "openat2", "setsockopt", "prlimit64")
DEFINITION = re.compile(r"#define __NR(?:3264)?_(\w+)\s+(\d+)")
JUMPS: dict[int, Callable[[int, int], object]] = {
    seccomp.JUMP_EQUAL: operator.eq,
    seccomp.JUMP_AT_LEAST: operator.ge,
    seccomp.JUMP_ABOVE: operator.gt,
    seccomp.JUMP_ANY_BIT: operator.and_,
}


def evaluate(program: bytes, data: bytes) -> int:
    """Return the result of a BPF program for a struct seccomp_data."""
    instructions = list(struct.iter_unpack("<HBBI", program))
    index = accumulator = 0
    while True:
        code, then, otherwise, value = instructions[index]
        index += 1
        if code == seccomp.RETURN:
            return int(value)
        if code == seccomp.LOAD:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif code == seccomp.AND:
            accumulator &= value
        else:
            index += then if JUMPS[code](accumulator, value) else otherwise


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def verdict(machine: str, number: int, *arguments: int, inet: bool = False, architecture: int | None = None) -> int:
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    chosen = seccomp.ARCHITECTURES[machine] if architecture is None else architecture
    return evaluate(seccomp.program(machine, inet=inet), struct.pack("<iIQ6Q", number, chosen, 0, *padded))


def number_of(call: tuple[int, int], machine: str) -> int:
    return call[MACHINES.index(machine)]


def test_harmless_calls_are_allowed(machine: str) -> None:
    assert {verdict(machine, number) for number in HARMLESS[machine]} == {ALLOWED}


# A copy of the names in the table, so that a call removed from it fails a test.
FORBIDDEN = """
    unshare setns chroot pivot_root mount umount2 open_tree move_mount fsopen fsconfig fsmount fspick
    mount_setattr open_tree_attr ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp
    setpriority ioprio_set sched_setaffinity sched_setattr chmod fchmod fchmodat fchmodat2 chown fchown lchown
    fchownat utime utimes futimesat utimensat setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr
    fremovexattr removexattrat file_setattr inotify_init inotify_init1 unlink unlinkat rename renameat renameat2
    io_uring_setup io_uring_enter io_uring_register bpf perf_event_open userfaultfd fanotify_init fanotify_mark
    add_key request_key keyctl personality modify_ldt uselib iopl ioperm syslog name_to_handle_at
    open_by_handle_at memfd_create memfd_secret vmsplice shmget shmat shmctl shmdt semget semop semctl
    semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink kexec_load kexec_file_load init_module finit_module
    delete_module create_module query_module reboot swapon swapoff acct quotactl quotactl_fd sethostname
    setdomainname settimeofday clock_settime clock_adjtime adjtimex vhangup
""".split()


def test_the_table_contains_all_denied_calls() -> None:
    assert list(seccomp.DENIED) == FORBIDDEN


@pytest.mark.parametrize("name", seccomp.DENIED)
def test_a_denied_call_fails(machine: str, name: str) -> None:
    number = seccomp.DENIED[name][MACHINES.index(machine)]
    assert number is None or verdict(machine, number) == DENIED


def test_other_calls_are_allowed_and_new_ones_are_unknown(machine: str) -> None:
    column = MACHINES.index(machine)
    checked = {numbers[column] for numbers in (*seccomp.DENIED.values(), seccomp.SOCKET, seccomp.SOCKETPAIR)}
    unknown = {number_of(call, machine) for call in (seccomp.CLONE3, seccomp.OPENAT2)}
    others = set(range(seccomp.NEWEST_CALL + 1)) - checked - unknown
    assert {verdict(machine, number) for number in others} == {ALLOWED}
    assert {verdict(machine, number) for number in (seccomp.NEWEST_CALL + 1, 5000)} == {UNKNOWN}


@pytest.mark.parametrize("architecture", [0x40000003, 0x40000028, 0, *seccomp.ARCHITECTURES.values()])
def test_calls_of_another_abi_kill_the_process(machine: str, architecture: int) -> None:
    expected = ALLOWED if architecture == seccomp.ARCHITECTURES[machine] else KILLED
    assert verdict(machine, HARMLESS[machine][0], architecture=architecture) == expected


def test_calls_of_the_x32_abi_kill_the_process(machine: str) -> None:
    assert {verdict(machine, seccomp.X32_BIT + number) for number in (0, 41, 0x3FFFFFFF)} == {KILLED}


@pytest.mark.parametrize("bit", [17, 25, 26, 27, 28, 29, 30])
def test_namespaces_are_denied_and_threads_are_allowed(machine: str, bit: int) -> None:
    clone = number_of(seccomp.CLONE, machine)
    assert verdict(machine, clone, 1 << bit | 17) == DENIED
    assert verdict(machine, clone, 0x3D0F00) == ALLOWED
    assert verdict(machine, number_of(seccomp.CLONE3, machine)) == UNKNOWN


@pytest.mark.parametrize("family", range(46))
def test_sockets_are_an_allow_list(machine: str, family: int) -> None:
    number = number_of(seccomp.SOCKET, machine)
    assert verdict(machine, number, family) == NO_FAMILY
    with_exit = verdict(machine, number, family, seccomp.SOCK_STREAM, inet=True)
    assert with_exit == (ALLOWED if family == seccomp.AF_INET else NO_FAMILY)


def test_the_proxy_can_use_tcp_only(machine: str) -> None:
    number, close_on_exec, mptcp = number_of(seccomp.SOCKET, machine), 0o2000000, 262

    def allows(kind: int, protocol: int) -> bool:
        return verdict(machine, number, seccomp.AF_INET, kind | close_on_exec, protocol, inet=True) == ALLOWED

    kinds = [(kind, protocol) for kind in range(8) for protocol in (0, 6, 17, 132, mptcp) if allows(kind, protocol)]
    assert kinds == [(seccomp.SOCK_STREAM, 0), (seccomp.SOCK_STREAM, 6)]


def test_a_socket_pair_cannot_send_to_other_sockets(machine: str) -> None:
    pair, nonblocking = number_of(seccomp.SOCKETPAIR, machine), 0o4000
    kinds = {kind: verdict(machine, pair, seccomp.AF_UNIX, kind | nonblocking) for kind in range(8)}
    assert {kind for kind, outcome in kinds.items() if outcome == ALLOWED} == {1, 5}
    assert verdict(machine, pair, seccomp.AF_INET, 1) == NO_FAMILY


def test_memory_that_belongs_to_no_process_is_denied(machine: str) -> None:
    mmap = number_of(seccomp.MMAP, machine)
    shared_anonymous, shared_validated, private_anonymous, shared_file = 0x21, 0x23, 0x22, 0x01
    assert verdict(machine, mmap, 0, 4096, 3, shared_anonymous) == DENIED
    assert verdict(machine, mmap, 0, 4096, 3, shared_validated) == DENIED
    assert verdict(machine, mmap, 0, 4096, 3, private_anonymous) == ALLOWED
    assert verdict(machine, mmap, 0, 4096, 3, shared_file) == ALLOWED


def test_a_file_without_a_name_is_denied(machine: str) -> None:
    written, temporary = 0o102, 0o20200002
    for call, place in ((seccomp.OPEN, 1), (seccomp.OPENAT, 2)):
        number = call[MACHINES.index(machine)]
        if number is not None:
            assert verdict(machine, number, *[0] * place, written) == ALLOWED
            assert verdict(machine, number, *[0] * place, temporary) == DENIED
    assert verdict(machine, number_of(seccomp.OPENAT2, machine)) == UNKNOWN


def test_only_own_limits_can_be_set(machine: str) -> None:
    prlimit = number_of(seccomp.PRLIMIT64, machine)
    assert verdict(machine, prlimit, 0) == ALLOWED
    assert verdict(machine, prlimit, 1) == DENIED


@pytest.mark.parametrize("level", [0, 1])
def test_socket_buffers_keep_their_size(machine: str, level: int) -> None:
    number = number_of(seccomp.SETSOCKOPT, machine)
    verdicts = {option: verdict(machine, number, 3, level, option) for option in range(100)}
    refused = set(seccomp.BUFFER_SIZES) if level == 1 else set()
    assert {option for option, each in verdicts.items() if each == DENIED} == refused
    assert {each for option, each in verdicts.items() if option not in refused} == {ALLOWED}


def test_typing_into_a_terminal_is_denied(machine: str) -> None:
    ioctl, get_size = number_of(seccomp.IOCTL, machine), 0x5413
    assert verdict(machine, ioctl, 0, seccomp.TIOCSTI) == verdict(machine, ioctl, 0, seccomp.TIOCLINUX) == DENIED
    assert verdict(machine, ioctl, 0, get_size) == ALLOWED


def test_only_the_low_half_of_an_argument_is_checked(machine: str) -> None:
    # Both calls take 32-bit values, so high bits must not evade the filter.
    assert verdict(machine, number_of(seccomp.SOCKET, machine), 1 << 32 | seccomp.AF_UNIX, inet=True) == NO_FAMILY
    assert verdict(machine, number_of(seccomp.CLONE, machine), 1 << 32 | 1 << 28) == DENIED


def test_every_jump_is_forward_and_every_path_returns(machine: str) -> None:
    program = list(struct.iter_unpack("<HBBI", seccomp.program(machine, inet=True)))
    assert program[-1][0] == seccomp.RETURN
    assert all(place + 1 + max(each[1], each[2]) < len(program) for place, each in enumerate(program[:-1]))
    assert len(program) < 250


def test_labels_are_unique_and_ahead() -> None:
    assembler = seccomp.Assembler()
    assembler.label("twice")
    with pytest.raises(ValueError, match="twice"):
        assembler.label("twice")
    assembler.add(seccomp.RETURN, 0)
    assembler.add(seccomp.JUMP_EQUAL, 0, "twice")
    with pytest.raises(ValueError, match="cannot be reached"):
        assembler.pack()


def test_a_jump_that_is_too_far_is_an_error() -> None:
    assembler = seccomp.Assembler()
    assembler.add(seccomp.JUMP_EQUAL, 0, "far")
    for _ in range(256):
        assembler.add(seccomp.LOAD, 0)
    assembler.label("far")
    assembler.add(seccomp.RETURN, 0)
    with pytest.raises(ValueError, match="cannot be reached"):
        assembler.pack()


def test_numbers_agree_with_the_system_headers(machine: str) -> None:
    header = Path("/usr/include", HEADERS[machine])
    if not header.exists():
        pytest.skip("the kernel's headers (linux-libc-dev) are not installed")
    known = {name: int(number) for name, number in DEFINITION.findall(header.read_text())}
    column = MACHINES.index(machine)
    named = {name: numbers[column] for name, numbers in seccomp.DENIED.items() if name in known}
    named |= {name: number_of(getattr(seccomp, name.upper()), machine) for name in CHECKED}
    assert {name: known[name] for name in named} == named
    listed = [numbers for numbers in seccomp.DENIED.values() if numbers[column] is not None]
    assert len(named) > len(listed) - 12


def test_no_number_is_listed_twice(machine: str) -> None:
    column = MACHINES.index(machine)
    numbers = sorted(number[column] or 0 for number in seccomp.DENIED.values() if number[column])
    assert all(one != next_ for one, next_ in pairwise(numbers))
