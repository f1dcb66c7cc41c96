"""The program between a worker and a simulator. It runs as a script and imports nothing from the service.

Its argument is one JSON document, written by `jobs.simulator.sandbox`. It starts the second stage
(`jobs.simulator.enter`), adopts the processes that stage leaves behind, watches what the run uses, and ends only
when none of its processes is alive. Its standard input is a socket to the worker. It accepts `interrupt` and `kill`
there, and treats the end of the stream, which means that the worker has died, as `kill`.
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
    """Return all processes below this one, including orphans, because this process is a subreaper."""
    found = [os.getpid()]
    for pid in found:
        found += children(pid)
    return found[1:]


def children(pid: int) -> list[int]:
    """Return the children of all threads of a process; none if it has ended."""
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
    """Reap all children that have ended; return their wait statuses by process id."""
    ended = {}
    try:
        while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            ended[found[0]] = found[1]
    except ChildProcessError:
        pass
    return ended


def children_remain() -> bool:
    """Return whether any child is alive or not yet reaped; unlike reading /proc, this misses none."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def kill_descendants() -> dict[int, int]:
    """Kill and reap every descendant in any session; return their wait statuses by process id.

    They can fork meanwhile, but not beyond their limit, because dead processes count until they are reaped.
    """
    ended = reap()
    while children_remain():
        for pid in descendants():
            send_signal(pid, signal.SIGKILL)
        time.sleep(0.002)
        ended |= reap()
    return ended


def disk_use(top: str, *, enough: int, meanwhile: Callable[[], None]) -> int:
    """Return the bytes below a directory, without following links; stop once the limit is exceeded.

    Each entry counts as at least one block, which bounds the walk. An unreadable folder counts as too much. A walk
    can take seconds, so `meanwhile` is called at every entry.
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

    The launcher is in it only while it starts the simulator, so the kernel never kills the launcher for this limit.
    """

    def __init__(self, folder: Path, *, home: Path) -> None:
        self.folder = folder
        self.home = home

    @classmethod
    def create(cls, limit: int, *, home: Path | None) -> Self | None:
        """Create a group beside this process's own and enter it. Return None if memory is not delegated."""
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
        """Create the group with its limit and move this process into it. Raises OSError."""
        # Left to the owner of a delegated group. It fails while processes are in that group itself.
        (self.home.parent / "cgroup.subtree_control").write_text("+memory")
        self.folder.mkdir()
        (self.folder / "memory.max").write_text(str(limit))
        # Missing if the kernel does not account for swap.
        if (self.home / "memory.swap.max").exists():
            (self.folder / "memory.swap.max").write_text("0")
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def leave(self) -> None:
        """Move this process back; the processes that it started stay."""
        with contextlib.suppress(OSError):
            (self.home / "cgroup.procs").write_text(str(os.getpid()))

    def is_exceeded(self) -> bool:
        """Return whether the kernel killed a process for this limit, not for a memory shortage elsewhere."""
        words = read_words(self.folder / "memory.events")
        counts = dict(zip(words[::2], words[1::2], strict=True))
        return int(counts.get("oom", 0)) > 0 and int(counts.get("oom_kill", 0)) > 0

    def remove(self) -> None:
        """Remove the group; if it is still in use, a later run removes it."""
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def own_cgroup() -> Path | None:
    """Return the folder of this process's control group (version 2); None if it has none below the root."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::/") and line != "0::/":
                mounts = [mount.split() for mount in Path("/proc/self/mounts").read_text().splitlines()]
                tops = [fields[1] for fields in mounts if fields[2] == "cgroup2"]
                return Path(tops[0] + line.removeprefix("0::")) if tops else None
    return None


def is_delegated(group: Path) -> bool:
    """Return whether a control group has the mark that systemd gives to delegated groups.

    Write permission proves nothing: root has it everywhere, and could leave the limits of its own service.
    """
    try:
        return os.getxattr(group, "user.delegate") == b"1"
    except OSError:
        return False


def remove_abandoned_groups(parent: Path) -> None:
    """Remove the groups of killed launchers, but not of live ones, which can be empty for a moment."""
    for folder in parent.glob(f"{RUN_GROUP}*"):
        pid = folder.name.removeprefix(RUN_GROUP)
        if pid == str(os.getpid()) or not Path("/proc", pid).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


def read_words(path: Path) -> list[str]:
    """Return the words of a small file; none if it cannot be read."""
    try:
        return path.read_text().split()
    except OSError:
        return []


def memory_use(pids: list[int], *, enough: int) -> int:
    """Return the bytes of memory that processes use together.

    Adding up resident pages is cheap, but counts shared pages several times. Only if that sum exceeds the limit are
    shared pages divided among the processes that use them, which is expensive.
    """
    resident = sum(resident_bytes(pid) for pid in pids)
    return resident if resident <= enough else sum(proportional_bytes(pid) for pid in pids)


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes, 0 if it has ended.

    Its threads are asked: once the first one has ended, the process itself shows no memory while others go on.
    """
    for thread in threads(pid):
        words = read_words(thread / "statm")
        if words and words[1] != "0":
            return int(words[1]) * PAGE_BYTES
    return 0


def proportional_bytes(pid: int) -> int:
    """Return the resident memory of a process with each page divided by its users; undivided if that is hidden."""
    for thread in threads(pid):
        words = read_words(thread / "smaps_rollup")
        if "Pss:" in words:
            return int(words[words.index("Pss:") + 1]) * 1024
    return resident_bytes(pid)


def is_in_memory(path: str) -> bool:
    """Return whether a folder is on a tmpfs, where files use memory."""
    statfs = ctypes.create_string_buffer(512)
    return bool(libc.statfs(os.fsencode(path), statfs) == 0 and struct.unpack_from("l", statfs)[0] == TMPFS_MAGIC)


class Supervisor:
    """One simulator, from its start until all its processes are gone."""

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
        """Run until the simulator and all its descendants are gone and the worker has the report."""
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
        """Make the end of a child readable, so that one wait covers all events."""
        self.wakeup, self.notify = socket.socketpair()
        self.notify.settimeout(0)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(self.notify.fileno(), warn_on_full_buffer=False)

    def start(self) -> None:
        """Start the second stage with this stage's output, and close that output here."""
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
        """Wait for the next event and handle it."""
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
        """Receive from the second stage: its layers, perhaps a socket or an error, then the end of its socket.

        The kernel adds the sender's process id as seen from here, outside any namespace.
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
        """Tell the worker that the simulator runs and pass on its exit's socket, or say why it does not run."""
        self.started_at = time.monotonic()
        if "layers" in self.said and "error" not in self.said:
            self.tell({"started": self.said["layers"]}, descriptor=self.listener)
        else:
            failed = self.said.get("error", "the sandbox could not be set up")
            self.tell({"failed": failed, "file_fault": self.said.get("file_fault", False)})

    def obey(self, order: bytes) -> None:
        """Interrupt the simulator, or kill all processes; no message means that the worker has died."""
        if order == b"interrupt":
            self.signal_simulator(signal.SIGINT)
        else:
            self.kill()

    def signal_simulator(self, number: int) -> None:
        """Signal only the simulator, because bubblewrap's own processes must see it end."""
        if self.simulator_pid in descendants():
            send_signal(self.simulator_pid, number)

    def kill(self) -> None:
        """Kill all processes, the simulator first: bubblewrap reports its usage only if it outlives it."""
        self.signal_simulator(signal.SIGKILL)
        deadline = time.monotonic() + FIRST_TO_GO_SECONDS
        while self.child_pid not in self.ended and time.monotonic() < deadline:
            time.sleep(0.002)
            self.ended |= reap()
        self.ended |= kill_descendants()

    def stop(self, reason: str) -> None:
        """Kill all processes; the first reason counts."""
        self.stopped_for = self.stopped_for or reason
        self.kill()

    @property
    def seconds_left(self) -> float:
        return float(self.started_at + self.specification["wall_seconds"] - time.monotonic())

    def check_time(self) -> None:
        """Kill a simulator that runs past its time, for example because the worker is suspended."""
        if self.seconds_left <= 0:
            self.stop("overtime")

    def check_use(self) -> None:
        """Check disk and memory, each when it is due."""
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
        """Kill a simulator whose private directory exceeds its limit."""
        enough = self.specification["disk_bytes"]
        used = disk_use(self.specification["watched"], enough=enough, meanwhile=self.check_memory_when_due)
        self.files_in_memory_bytes = used if self.has_files_in_memory else 0
        if used > enough:
            self.stop("disk_flood")

    def check_memory(self) -> None:
        """Kill a simulator whose processes together exceed the memory limit."""
        if self.cgroup is not None:
            is_exceeded = self.cgroup.is_exceeded()
        else:
            enough = self.specification["memory_bytes"] - self.files_in_memory_bytes
            is_exceeded = memory_use(descendants(), enough=enough) > enough
        if is_exceeded:
            self.stop("memory_limit")

    def result(self, wall_seconds: float) -> dict[str, Any]:
        """Return the report for the worker; times in seconds, memory in bytes."""
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
