"""The program between a worker and a simulator. It runs as a script and imports nothing of the service.

Its argument is one JSON document (`jobs.simulator.sandbox` writes it). It starts the second stage
(`jobs.simulator.enter`), stays as the parent of whatever that leaves behind, watches what the run uses, and ends
only when nothing of it is alive. Its standard input is a socket to the worker: it takes `interrupt` and `kill`
there, and takes the end of the stream, which is the worker's death, for `kill`.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

READY_FD = 3
CHECK_DISK_SECONDS = 1.0
CHECK_MEMORY_SECONDS = 0.25
FIRST_TO_GO_SECONDS = 0.2
ENTRY_BYTES = 4096
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
RUN_GROUP = "simservice-run-"

PR_SET_CHILD_SUBREAPER = 36
TMPFS_MAGIC = 0x01021994

libc = ctypes.CDLL(None, use_errno=True)


# Processes


def descendants() -> list[int]:
    """All processes below this one. Orphans are among them, because this process is a subreaper."""
    found = [os.getpid()]
    for pid in found:
        found += children(pid)
    return found[1:]


def children(pid: int) -> list[int]:
    """The children of all threads of a process; none when it has ended."""
    found: list[int] = []
    for thread in threads(pid):
        with contextlib.suppress(OSError):
            found += map(int, (thread / "children").read_text().split())
    return found


def threads(pid: int) -> Iterator[Path]:
    """The folders of a process's threads; none when it has ended."""
    return Path(f"/proc/{pid}/task").glob("[0-9]*")


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


def disk_use(top: str, *, enough: int, meanwhile: Callable[[], None]) -> int:
    """Bytes below a directory, without following links; the walk ends once it has found more than enough.

    An entry counts as a block at least, which bounds the walk. What cannot be looked into counts as too much. As a
    walk can take seconds, `meanwhile` is called at every entry.
    """
    used = 0
    pending = [top]
    while pending and used <= enough:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    meanwhile()
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


# Memory


class MemoryCgroup:
    """A control group (version 2) of one run, whose memory the kernel limits as a whole.

    The launcher is in it only while it starts the simulator, so the kernel never kills the launcher for that limit.
    """

    def __init__(self, folder: Path, *, home: Path) -> None:
        self.folder = folder
        self.home = home

    @classmethod
    def create(cls, limit: int, *, home: Path | None) -> Self | None:
        """Make a group beside this process's own, and enter it; None where memory is not delegated."""
        if home is None or not is_delegated(home.parent):
            return None
        group = cls(home.parent / f"{RUN_GROUP}{os.getpid()}", home=home)
        try:
            remove_abandoned_groups(home.parent)
            group.make(limit)
        except OSError:
            group.remove()
            return None
        return group

    def make(self, limit: int) -> None:
        """Make the group with its limit, and move this process there; raises OSError."""
        # Left to the owner of a delegated group. It fails while processes are in that group itself.
        (self.home.parent / "cgroup.subtree_control").write_text("+memory")
        self.folder.mkdir()
        (self.folder / "memory.max").write_text(str(limit))
        # No group has it where the kernel does not account for swap.
        if (self.home / "memory.swap.max").exists():
            (self.folder / "memory.swap.max").write_text("0")
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def leave(self) -> None:
        """Move this process back; what it has started stays."""
        with contextlib.suppress(OSError):
            (self.home / "cgroup.procs").write_text(str(os.getpid()))

    def is_exceeded(self) -> bool:
        """Return whether the kernel killed because of this limit, rather than for want of memory elsewhere."""
        words = read_words(self.folder / "memory.events")
        counts = dict(zip(words[::2], words[1::2], strict=True))
        return int(counts.get("oom", 0)) > 0 and int(counts.get("oom_kill", 0)) > 0

    def remove(self) -> None:
        """Remove the group; a later run removes one that is still in use."""
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def own_cgroup() -> Path | None:
    """The folder of this process's control group of version 2; None without one below the root."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::/") and line != "0::/":
                mounts = [mount.split() for mount in Path("/proc/self/mounts").read_text().splitlines()]
                tops = [fields[1] for fields in mounts if fields[2] == "cgroup2"]
                return Path(tops[0] + line.removeprefix("0::")) if tops else None
    return None


def is_delegated(group: Path) -> bool:
    """Return whether a control group is marked as handed over to the programs in it, as systemd marks it.

    The right to write there says nothing: root has it everywhere, and would leave the limits of its own service.
    """
    try:
        return os.getxattr(group, "user.delegate") == b"1"
    except OSError:
        return False


def remove_abandoned_groups(parent: Path) -> None:
    """Remove the groups of launchers that were killed; those of living ones may be empty for a moment."""
    for folder in parent.glob(f"{RUN_GROUP}*"):
        pid = folder.name.removeprefix(RUN_GROUP)
        if pid == str(os.getpid()) or not Path("/proc", pid).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


def read_words(path: Path) -> list[str]:
    """The words of a small file; none when it cannot be read."""
    try:
        return path.read_text().split()
    except OSError:
        return []


def memory_use(pids: list[int], *, enough: int) -> int:
    """Bytes of memory that processes use together.

    Their resident pages are added up, which is cheap and counts shared pages several times. Only when that comes to
    more than enough are the pages shared out among those who use them, which is costly.
    """
    resident = sum(resident_bytes(pid) for pid in pids)
    return resident if resident <= enough else sum(proportional_bytes(pid) for pid in pids)


def resident_bytes(pid: int) -> int:
    """Resident memory of a process, 0 when it has ended.

    Asked of its threads: where the first one has ended, the process itself shows no memory while others go on.
    """
    for thread in threads(pid):
        words = read_words(thread / "statm")
        if words and words[1] != "0":
            return int(words[1]) * PAGE_BYTES
    return 0


def proportional_bytes(pid: int) -> int:
    """Resident memory of a process, each page divided by its users; undivided where that is hidden."""
    for thread in threads(pid):
        words = read_words(thread / "smaps_rollup")
        if "Pss:" in words:
            return int(words[words.index("Pss:") + 1]) * 1024
    return resident_bytes(pid)


def is_in_memory(path: str) -> bool:
    """Whether a folder lies on a tmpfs, so that its files take memory."""
    statfs = ctypes.create_string_buffer(512)
    return bool(libc.statfs(os.fsencode(path), statfs) == 0 and struct.unpack_from("l", statfs)[0] == TMPFS_MAGIC)


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
        self.listener: int | None = None
        self.next_disk_check_at = self.next_memory_check_at = 0.0
        self.files_in_memory_bytes = 0
        self.has_files_in_memory = is_in_memory(specification["watched"])
        self.cgroup = MemoryCgroup.create(specification["memory_bytes"], home=own_cgroup())

    def run(self) -> None:
        """Returns when the simulator and all its descendants are gone and the worker has been told."""
        libc.prctl(PR_SET_CHILD_SUBREAPER, *map(ctypes.c_ulong, (1, 0, 0, 0)))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self.watch_children()
        self.start()
        while self.child_pid not in self.ended:
            self.step()
            self.check_time()
            self.check_use()
        wall_seconds = time.monotonic() - self.started_at
        self.kill()
        self.read_ready()
        self.check_disk()
        if self.cgroup is not None:
            self.check_memory()
            self.cgroup.remove()
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
        if self.cgroup is not None:
            self.cgroup.leave()
        theirs.close()
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)

    def step(self) -> None:
        """Wait for the next thing to happen and deal with it."""
        sources = [source for source in (self.ready, self.worker, self.wakeup) if source.fileno() >= 0]
        readable, _, _ = select.select(sources, [], [], min(CHECK_MEMORY_SECONDS, max(0.0, self.seconds_left)))
        if self.ready in readable:
            self.read_ready()
        if self.worker in readable:
            self.obey(self.worker.recv(64))
        if self.wakeup in readable:
            self.wakeup.recv(4096)
            self.ended |= reap()

    def read_ready(self) -> None:
        """Hear the second stage: its layers, perhaps a socket or an error, and the closing of its socket by exec.

        The kernel adds the sender's process id as it is seen from here, outside any namespace.
        """
        while self.ready.fileno() >= 0:
            try:
                room = socket.CMSG_SPACE(struct.calcsize("3i")) + socket.CMSG_SPACE(struct.calcsize("i"))
                message, extra, _, _ = self.ready.recvmsg(65536, room)
            except BlockingIOError:
                return
            if not message:
                self.ready.close()
                self.announce()
                continue
            self.said |= json.loads(message)
            received = {kind: data for _, kind, data in extra}
            self.simulator_pid = struct.unpack("3i", received[socket.SCM_CREDENTIALS])[0]
            if socket.SCM_RIGHTS in received:
                self.listener = struct.unpack("i", received[socket.SCM_RIGHTS])[0]

    def announce(self) -> None:
        """Tell the worker that the simulator runs, and pass the socket of its exit on, or say why it does not."""
        self.started_at = time.monotonic()
        if "layers" in self.said and "error" not in self.said:
            self.tell({"started": self.said["layers"]}, descriptor=self.listener)
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

    def stop(self, reason: str) -> None:
        """Kill all; the first reason counts."""
        self.stopped_for = self.stopped_for or reason
        self.kill()

    @property
    def seconds_left(self) -> float:
        return float(self.started_at + self.specification["wall_seconds"] - time.monotonic())

    def check_time(self) -> None:
        """Kill a simulator that the worker, suspended perhaps, has let run past its time."""
        if self.seconds_left <= 0:
            self.stop("overtime")

    def check_use(self) -> None:
        """Look at disk and memory, each as often as it is due."""
        now = time.monotonic()
        if now >= self.next_disk_check_at:
            self.next_disk_check_at = now + CHECK_DISK_SECONDS
            self.check_disk()
        self.check_memory_when_due()

    def check_memory_when_due(self) -> None:
        """Look at memory unless that was done a moment ago."""
        if time.monotonic() >= self.next_memory_check_at:
            self.check_memory()
            self.next_memory_check_at = time.monotonic() + CHECK_MEMORY_SECONDS

    def check_disk(self) -> None:
        """Kill a simulator whose private directory has outgrown its limit."""
        enough = self.specification["disk_bytes"]
        used = disk_use(self.specification["watched"], enough=enough, meanwhile=self.check_memory_when_due)
        self.files_in_memory_bytes = used if self.has_files_in_memory else 0
        if used > enough:
            self.stop("disk_flood")

    def check_memory(self) -> None:
        """Kill a simulator whose processes together use more memory than the run may."""
        if self.cgroup is not None:
            is_exceeded = self.cgroup.is_exceeded()
        else:
            enough = self.specification["memory_bytes"] - self.files_in_memory_bytes
            is_exceeded = memory_use(descendants(), enough=enough) > enough
        if is_exceeded:
            self.stop("memory_limit")

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

    def tell(self, message: dict[str, Any], *, descriptor: int | None = None) -> None:
        """Tell the worker, unless it has died."""
        with contextlib.suppress(OSError):
            passed = [] if descriptor is None else [descriptor]
            socket.send_fds(self.worker, [json.dumps(message).encode()], passed)


if __name__ == "__main__":
    Supervisor(json.loads(sys.argv[1]), socket.socket(fileno=0)).run()
