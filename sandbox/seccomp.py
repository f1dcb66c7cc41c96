"""The seccomp filter of a confined program: BPF code that decides which system calls it may make (seccomp(2)).

The filter allows the calls that a computation needs, and denies those that could lead out of the sandbox: sockets,
namespaces, mounts, other processes' memory, and kernel interfaces with a history of flaws. A call of another ABI,
where numbers mean other calls, kills the process. A call newer than this list fails with ENOSYS.
"""

import errno
import functools
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

# linux/filter.h, linux/bpf_common.h
LOAD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_ABOVE, JUMP_ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x25, 0x45, 0x54, 0x06
# linux/seccomp.h
ALLOW, KILL_PROCESS, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
# Offsets in struct seccomp_data; both machines are little-endian, so the low half of an argument comes first.
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16

# linux/audit.h
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Calls from here on are those of the x32 ABI, which shares x86-64's architecture.
X32_BIT = 0x40000000
# The newest call that was reviewed (Linux 6.18).
NEWEST_CALL = 469

AF_UNIX, AF_INET = 1, 2
IPPROTO_IP, IPPROTO_TCP = 0, 6
SOCK_STREAM, SOCK_SEQPACKET, SOCK_TYPE_MASK = 1, 5, 0xF
MAP_SHARED_ANONYMOUS = 0x21
SOL_SOCKET = 1
# SO_SNDBUF, SO_RCVBUF, SO_SNDBUFFORCE, SO_RCVBUFFORCE
BUFFER_SIZES = (7, 8, 32, 33)
# The bit that O_TMPFILE adds to O_DIRECTORY
TEMPORARY_FILE = 0o20000000
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
NEW_NAMESPACES = 0x00020000 | 0x7E000000

# Denied calls: the numbers on x86-64 and on aarch64; None if the architecture lacks the call.
DENIED: dict[str, tuple[int | None, int | None]] = {
    # Namespaces and mounts, by the old and the new interface
    "unshare": (272, 97),
    "setns": (308, 268),
    "chroot": (161, 51),
    "pivot_root": (155, 41),
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    # Other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    # Attributes and watches of the same user's files, which Landlock does not restrict
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    # Files without a name, which a check of the directory would miss; see also `open`
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    # Kernel interfaces that a computation does not need
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "personality": (135, 92),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "iopl": (172, None),
    "ioperm": (173, None),
    "syslog": (103, 116),
    # Files by handle, which bypasses the permissions of directories
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # Memory that belongs to no directory and no process
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "vmsplice": (278, 75),
    # System V IPC and message queues: shared by all processes of a machine
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    # The machine itself
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "create_module": (174, None),
    "query_module": (178, None),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "vhangup": (153, 58),
}
# Calls that are checked by their arguments.
CLONE, CLONE3 = (56, 220), (435, 435)
SOCKET, SOCKETPAIR = (41, 198), (53, 199)
MMAP, IOCTL = (9, 222), (16, 29)
OPENAT, OPENAT2, PRLIMIT64 = (257, 56), (437, 437), (302, 261)
SETSOCKOPT = (54, 208)
OPEN = (2, None)
# The labels of the checks, those of frequent calls first. A filter cannot read the flags of clone3 and openat2,
# which are in memory; libraries fall back.
CHECKED: tuple[tuple[tuple[int, int | None], str], ...] = (
    (MMAP, "mmap"), (IOCTL, "ioctl"), (CLONE, "clone"), (CLONE3, "unknown"), (SOCKET, "socket"),
    (SOCKETPAIR, "socketpair"), (OPENAT, "openat"), (OPEN, "open"), (OPENAT2, "unknown"), (PRLIMIT64, "prlimit"),
    (SETSOCKOPT, "setsockopt"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Instruction:
    """One BPF instruction; labels are resolved to distances when the program is packed."""

    code: int
    value: int
    then: str = ""
    otherwise: str = ""


@dataclass(slots=True)
class Assembler:
    """Collects instructions and labels. A jump to the empty label continues with the next instruction."""

    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    def add(self, code: int, value: int, then: str = "", otherwise: str = "") -> None:
        """Append an instruction."""
        self.instructions.append(Instruction(code, value, then, otherwise))

    def load_argument(self, number: int) -> None:
        """Append the load of the low half of an argument of the call, counted from 0."""
        self.add(LOAD, ARGUMENTS + 8 * number)

    def label(self, name: str) -> None:
        """Name the next instruction. Raises ValueError if the name exists."""
        if name in self.labels:
            raise ValueError(f"the label {name} is defined twice")
        self.labels[name] = len(self.instructions)

    def pack(self) -> bytes:
        """Return the program in the kernel's format. Raises ValueError for a jump that is backward or too far."""
        return b"".join(self._packed())

    def _packed(self) -> Iterator[bytes]:
        for index, each in enumerate(self.instructions):
            distances = [self._distance(index, label) for label in (each.then, each.otherwise)]
            yield struct.pack("<HBBI", each.code, *distances, each.value)

    def _distance(self, index: int, label: str) -> int:
        distance = self.labels[label] - index - 1 if label else 0
        if not 0 <= distance <= 255:
            raise ValueError(f"{label} cannot be reached from instruction {index}")
        return distance


def is_supported(machine: str) -> bool:
    """Return whether there is a filter for a machine, by its name in `uname -m`."""
    return machine in ARCHITECTURES


@functools.cache
def program(machine: str, *, inet: bool) -> bytes:
    """Return the filter for a supported machine; with `inet`, IPv4 sockets are allowed."""
    column = list(ARCHITECTURES).index(machine)
    assembler = Assembler()
    # Calls of other ABIs kill the process.
    assembler.add(LOAD, ARCHITECTURE)
    assembler.add(JUMP_EQUAL, ARCHITECTURES[machine], "", "kill")
    assembler.add(LOAD, NUMBER)
    assembler.add(JUMP_AT_LEAST, X32_BIT, "kill")
    assembler.add(JUMP_ABOVE, NEWEST_CALL, "unknown")
    for call, label in CHECKED:
        number = call[column]
        if number is not None:
            assembler.add(JUMP_EQUAL, number, label)
    for numbers in DENIED.values():
        if (number := numbers[column]) is not None:
            assembler.add(JUMP_EQUAL, number, "deny")
    assembler.add(RETURN, ALLOW)
    _check_memory_and_files(assembler)
    _check_processes(assembler)
    _check_sockets(assembler, inet=inet)
    for name, action in (
        ("allow", ALLOW),
        ("deny", ERRNO | errno.EPERM),
        ("deny family", ERRNO | errno.EAFNOSUPPORT),
        ("unknown", ERRNO | errno.ENOSYS),
        ("kill", KILL_PROCESS),
    ):
        assembler.label(name)
        assembler.add(RETURN, action)
    return assembler.pack()


def _check_memory_and_files(assembler: Assembler) -> None:
    # Shared memory without a file can stay allocated without counting for any process.
    assembler.label("mmap")
    assembler.load_argument(3)
    assembler.add(AND, MAP_SHARED_ANONYMOUS)
    assembler.add(JUMP_EQUAL, MAP_SHARED_ANONYMOUS, "deny", "allow")
    # A file without a name uses disk or memory that a check of the directory would miss.
    for name, argument in (("open", 1), ("openat", 2)):
        assembler.label(name)
        assembler.load_argument(argument)
        assembler.add(JUMP_ANY_BIT, TEMPORARY_FILE, "deny", "allow")


def _check_processes(assembler: Assembler) -> None:
    # Only a process's own limits: if the caller runs as the same user, Landlock does not protect the caller's.
    assembler.label("prlimit")
    assembler.load_argument(0)
    assembler.add(JUMP_EQUAL, 0, "allow", "deny")
    # Typing into the caller's terminal.
    assembler.label("ioctl")
    assembler.load_argument(1)
    assembler.add(JUMP_EQUAL, TIOCSTI, "deny")
    assembler.add(JUMP_EQUAL, TIOCLINUX, "deny", "allow")
    assembler.label("clone")
    assembler.load_argument(0)
    assembler.add(JUMP_ANY_BIT, NEW_NAMESPACES, "deny", "allow")


def _check_sockets(assembler: Assembler, *, inet: bool) -> None:
    # Socket buffers do not count as a process's memory, so they keep their default size.
    assembler.label("setsockopt")
    assembler.load_argument(1)
    assembler.add(JUMP_EQUAL, SOL_SOCKET, "", "allow")
    assembler.load_argument(2)
    for option in BUFFER_SIZES:
        assembler.add(JUMP_EQUAL, option, "deny")
    assembler.add(RETURN, ALLOW)
    assembler.label("socket")
    if inet:
        # TCP only: other protocols would use kernel code that no proxy needs.
        assembler.load_argument(0)
        assembler.add(JUMP_EQUAL, AF_INET, "", "deny family")
        assembler.load_argument(1)
        assembler.add(AND, SOCK_TYPE_MASK)
        assembler.add(JUMP_EQUAL, SOCK_STREAM, "", "deny")
        assembler.load_argument(2)
        assembler.add(JUMP_EQUAL, IPPROTO_IP, "allow")
        assembler.add(JUMP_EQUAL, IPPROTO_TCP, "allow", "deny")
    assembler.add(RETURN, ERRNO | errno.EAFNOSUPPORT)
    # A datagram pair can send to any socket by its path; the other two types cannot.
    assembler.label("socketpair")
    assembler.load_argument(0)
    assembler.add(JUMP_EQUAL, AF_UNIX, "", "deny family")
    assembler.load_argument(1)
    assembler.add(AND, SOCK_TYPE_MASK)
    assembler.add(JUMP_EQUAL, SOCK_STREAM, "allow")
    assembler.add(JUMP_EQUAL, SOCK_SEQPACKET, "allow", "deny")
