"""The program between a worker and a simulator. It is run as a script and imports nothing of the service.

It has two stages, each given one JSON document as its last argument (``jobs.simulator.sandbox`` writes both):

* ``supervise`` starts the second stage, stays as the parent of whatever it leaves behind, and ends only when
  nothing of it is alive. Its standard input is a socket to the worker: it takes ``interrupt`` and ``kill``
  there, and takes the end of the stream, which is the worker's death, for ``kill``.
* ``enter`` gives up every right the simulator has no use for, then becomes the simulator. It runs directly
  below the first stage, or inside bubblewrap.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

READY_FD = 3
CHECK_SECONDS = 1.0
FIRST_TO_GO_SECONDS = 0.2
ENTRY_BYTES = 4096

PR_SET_PDEATHSIG = 1
PR_SET_KEEPCAPS = 8
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAP_DAC_READ_SEARCH = 2
CAPABILITY_VERSION_3 = 0x20080522
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000

LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_CREATE_RULESET_VERSION = 1
LANDLOCK_RULE_PATH_BENEATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
READ_RIGHTS = EXECUTE | READ_FILE | READ_DIR
WRITE_RIGHTS = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | MAKE_REG | MAKE_DIR | REMOVE_FILE | REMOVE_DIR | REFER
RIGHTS_OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
BIND_AND_CONNECT_TCP = 0b11
SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11

libc = ctypes.CDLL(None, use_errno=True)


def checked(call: Callable[..., int], *arguments: object) -> int:
    """The result of a C function; raises OSError where it reports a failure."""
    result = call(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def prctl(option: int, *arguments: int) -> None:
    """prctl(2); all five arguments are given at full width, as some options insist on zeros."""
    padded = (*arguments, 0, 0, 0, 0)[:4]
    checked(libc.prctl, option, *(ctypes.c_ulong(value) for value in padded))


# Supervising


def children_by_parent() -> dict[int, list[int]]:
    """The ids of all processes there are, below their parent's."""
    children: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "stat").read_bytes()
        except OSError:
            continue
        # The command's name stands in parentheses and may itself contain any character.
        parent = int(line[line.rindex(b")") + 1 :].split()[1])
        children.setdefault(parent, []).append(int(process.name))
    return children


def descendants() -> list[int]:
    """All processes below this one. Orphans are among them, because this process is a subreaper."""
    children = children_by_parent()
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def send_signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def reap() -> dict[int, int]:
    """Wait statuses, by process id, of all children that have ended."""
    ended = {}
    try:
        while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            ended[found[0]] = found[1]
    except ChildProcessError:
        pass
    return ended


def children_remain() -> bool:
    """Whether there is any child, alive or not yet reaped; unlike a look at /proc this misses none."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def kill_descendants() -> dict[int, int]:
    """Kill and reap every descendant, also one that left the session; their wait statuses by process id.

    They may fork meanwhile, but never more than their limit allows, as the dead count until they are reaped.
    """
    ended = reap()
    while children_remain():
        for pid in descendants():
            send_signal(pid, signal.SIGKILL)
        time.sleep(0.002)
        ended |= reap()
    return ended


def disk_use(top: str, *, enough: int) -> int:
    """Bytes below a directory, without following links; the walk ends once it has found more than enough.

    An entry counts as a block at least, which bounds the walk. What cannot be looked into counts as too much.
    """
    used = 0
    pending = [top]
    while pending and used <= enough:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    used += max(entry.stat(follow_symlinks=False).st_blocks * 512, ENTRY_BYTES)
                    if used > enough:
                        break
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return enough + 1
    return used


class Supervisor:
    """One simulator from its start until nothing of it is left."""

    def __init__(self, specification: dict[str, Any], worker: socket.socket) -> None:
        self.specification = specification
        self.worker = worker
        self.said: dict[str, Any] = {}
        self.simulator_pid = 0
        self.started_at = time.monotonic()
        self.stopped_for: str | None = None
        self.ended: dict[int, int] = {}

    def run(self) -> None:
        """Returns when the simulator and all its descendants are gone and the worker has been told."""
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self.watch_children()
        self.start()
        next_check_at = 0.0
        while self.child_pid not in self.ended:
            self.step()
            self.check_time()
            if time.monotonic() >= next_check_at:
                self.check_disk()
                next_check_at = time.monotonic() + CHECK_SECONDS
        wall_seconds = time.monotonic() - self.started_at
        self.kill()
        self.read_ready()
        self.check_disk()
        self.tell({"ended": self.result(wall_seconds)})

    def watch_children(self) -> None:
        """Make the end of a child readable, so that one wait serves for all there is to wait for."""
        self.wakeup, self.notify = socket.socketpair()
        self.notify.settimeout(0)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(self.notify.fileno(), warn_on_full_buffer=False)

    def start(self) -> None:
        """Start the second stage with this stage's output as its own, and let go of that output here."""
        self.ready, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ready.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.ready.settimeout(0)
        command = self.specification["command"]
        self.child_pid = os.posix_spawn(
            command[0],
            command,
            self.specification["environment"],
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), READY_FD),
            ],
            setsid=True,
        )
        theirs.close()
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)

    def step(self) -> None:
        """Wait for the next thing to happen and deal with it."""
        sources = [source for source in (self.ready, self.worker, self.wakeup) if source.fileno() >= 0]
        readable, _, _ = select.select(sources, [], [], min(CHECK_SECONDS, max(0.0, self.seconds_left)))
        if self.ready in readable:
            self.read_ready()
        if self.worker in readable:
            self.obey(self.worker.recv(64))
        if self.wakeup in readable:
            self.wakeup.recv(4096)
            self.ended |= reap()

    def read_ready(self) -> None:
        """Hear the second stage: its layers, perhaps an error, and the closing of its socket by exec.

        The kernel adds the sender's process id as it is seen from here, outside any namespace.
        """
        while self.ready.fileno() >= 0:
            try:
                message, extra, _, _ = self.ready.recvmsg(65536, socket.CMSG_SPACE(struct.calcsize("3i")))
            except BlockingIOError:
                return
            if not message:
                self.ready.close()
                self.announce()
            else:
                self.said |= json.loads(message)
                self.simulator_pid = struct.unpack("3i", extra[0][2])[0]

    def announce(self) -> None:
        self.started_at = time.monotonic()
        if "layers" in self.said and "error" not in self.said:
            self.tell({"started": self.said["layers"]})
        else:
            self.tell({"failed": self.said.get("error", "the sandbox could not be set up")})

    def obey(self, order: bytes) -> None:
        """Interrupt the simulator itself, or kill all; no message means that the worker is gone."""
        if order == b"interrupt":
            self.signal_simulator(signal.SIGINT)
        else:
            self.kill()

    def signal_simulator(self, number: int) -> None:
        """Signal the simulator alone: bubblewrap's own processes must see it end."""
        if self.simulator_pid in descendants():
            send_signal(self.simulator_pid, number)

    def kill(self) -> None:
        """Kill all. The simulator goes first, as bubblewrap passes on what it used only if it outlives it."""
        self.signal_simulator(signal.SIGKILL)
        deadline = time.monotonic() + FIRST_TO_GO_SECONDS
        while self.child_pid not in self.ended and time.monotonic() < deadline:
            time.sleep(0.002)
            self.ended |= reap()
        self.ended |= kill_descendants()

    @property
    def seconds_left(self) -> float:
        return float(self.started_at + self.specification["wall_seconds"] - time.monotonic())

    def check_time(self) -> None:
        """Kill a simulator that the worker, suspended perhaps, has let run past its time."""
        if self.seconds_left <= 0:
            self.stopped_for = "overtime"
            self.kill()

    def check_disk(self) -> None:
        """Kill a simulator whose private directory has outgrown its limit."""
        enough = self.specification["disk_bytes"]
        if disk_use(self.specification["watched"], enough=enough) > enough:
            self.stopped_for = "disk_flood"
            self.kill()

    def result(self, wall_seconds: float) -> dict[str, Any]:
        """The end as the worker wants to know it; times in seconds, memory in bytes."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "status": os.waitstatus_to_exitcode(self.ended[self.child_pid]),
            "stopped_for": self.stopped_for,
            "wall_seconds": wall_seconds,
            "cpu_seconds": used.ru_utime + used.ru_stime,
            "peak_memory_bytes": used.ru_maxrss * 1024,
        }

    def tell(self, message: dict[str, Any]) -> None:
        """Tell the worker, unless it has died."""
        with contextlib.suppress(OSError):
            self.worker.send(json.dumps(message).encode())


# Entering


class RulesetAttributes(ctypes.Structure):
    """struct landlock_ruleset_attr; a field the kernel does not know yet must be zero."""

    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class PathBeneath(ctypes.Structure):
    """struct landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


def landlock_abi() -> int:
    """The version of Landlock in this kernel; less than 1 without it."""
    return int(libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_CREATE_RULESET_VERSION))


def landlock_rights(abi: int) -> int:
    """All rights over files that a kernel of this Landlock version can take away."""
    highest = REFER >> 1
    for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)):
        if abi >= since:
            highest = right
    return (highest << 1) - 1


def allow_path(ruleset: int, path: str, rights: int) -> None:
    """Give rights over a path and all below it; a path that does not exist is left out."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        rights &= RIGHTS_OF_A_FILE
    rule = PathBeneath(rights, descriptor)
    checked(libc.syscall, LANDLOCK_ADD_RULE, ruleset, LANDLOCK_RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    os.close(descriptor)


def restrict_by_landlock(specification: dict[str, Any]) -> bool:
    """Leave only the named paths, no TCP, no signals outward; False where the kernel has no Landlock."""
    abi = landlock_abi()
    if abi < 1:
        return False
    rights = landlock_rights(abi)
    attributes = RulesetAttributes(
        rights,
        BIND_AND_CONNECT_TCP if abi >= 4 and not specification["network"] else 0,
        SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if abi >= 6 else 0,
    )
    size = ctypes.sizeof(attributes)
    ruleset = checked(libc.syscall, LANDLOCK_CREATE_RULESET, ctypes.byref(attributes), size, 0)
    for path in specification["readable"]:
        allow_path(ruleset, path, READ_RIGHTS & rights)
    for path in specification["writable"]:
        allow_path(ruleset, path, WRITE_RIGHTS & rights)
    checked(libc.syscall, LANDLOCK_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    return True


def leave_network() -> bool:
    """Move to a network namespace without interfaces; an ordinary user needs a user namespace for that."""
    flags = CLONE_NEWNET if os.geteuid() == 0 else CLONE_NEWNET | CLONE_NEWUSER
    return bool(libc.unshare(flags) == 0)


def become_user(uid: int, *, keep_search: bool) -> None:
    """Take on an unprivileged identity, for good.

    ``keep_search`` keeps the right to pass closed directories, which is how a build below a home directory
    stays usable. Landlock still decides what may be opened, so it must be in force already.
    """
    prctl(PR_SET_KEEPCAPS, int(keep_search))
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if keep_search:
        mask = 1 << CAP_DAC_READ_SEARCH
        header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
        checked(libc.capset, header, (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0))
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH)


def limit_resources(limits: dict[str, tuple[int, int]]) -> None:
    """Lower each limit, given as (soft, hard); one that is lower already stays as it is."""
    for name, values in limits.items():
        kind = getattr(resource, name)
        hardest = resource.getrlimit(kind)[1]
        soft, hard = values if hardest == resource.RLIM_INFINITY else (min(v, hardest) for v in values)
        resource.setrlimit(kind, (soft, hard))


def reset_signals() -> None:
    """Undo what Python and whoever started the worker ignore: exec passes ignored signals on."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def give_up_rights(specification: dict[str, Any]) -> list[str]:
    """Apply every layer that this machine offers; their names."""
    layers = []
    os.umask(0o077)
    Path("/proc/self/oom_score_adj").write_text("1000")
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if specification["leave_network"] and leave_network():
        layers.append("network_namespace")
    if restrict_by_landlock(specification):
        layers.append("landlock")
    if specification["uid"] is not None:
        closed = specification["closed"]
        if closed and "landlock" not in layers:
            raise PermissionError(f"{closed} is closed to other users, and the kernel has no Landlock")
        become_user(specification["uid"], keep_search=bool(closed))
        layers.append("own_uid")
    os.chdir(specification["cwd"])
    # After the change of identity, which clears it.
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    limit_resources(specification["limits"])
    return [*layers, "rlimits"]


def enter(specification: dict[str, Any]) -> NoReturn:
    """Become the simulator. If the first stage has died meanwhile, nobody hears the layers and this ends.

    The duplicate of the socket, unlike the one received, is closed by exec: that tells of success.
    """
    first_stage = socket.socket(fileno=os.dup(READY_FD))
    os.close(READY_FD)
    command = specification["command"]
    try:
        layers = give_up_rights(specification)
        first_stage.send(json.dumps({"layers": layers}).encode())
        reset_signals()
        os.execve(command[0], command, specification["environment"])  # noqa: S606 - becomes the simulator
    except OSError as error:
        first_stage.send(json.dumps({"error": f"{command[0]}: {error}"}).encode())
        sys.exit(1)


def main() -> None:
    stage, specification = sys.argv[1], json.loads(sys.argv[2])
    if stage == "enter":
        enter(specification)
    Supervisor(specification, socket.socket(fileno=0)).run()


if __name__ == "__main__":
    main()
