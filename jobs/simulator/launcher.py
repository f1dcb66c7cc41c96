"""The process between a worker and a simulator.

It runs as a script. Its argument is one JSON document, written by `jobs.simulator.sandbox`. It starts the second
stage (`jobs.simulator.enter`), adopts the processes that this leaves behind, watches what the run uses, and ends
only when none of its processes is alive. Its standard input is a socket to the worker. It accepts `interrupt` and
`kill` there, and treats the end of the stream, which means that the worker has died, as `kill`.
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
from pathlib import Path
from typing import Any

# Python does not find the project by itself, because this script runs in isolated mode (`-I`).
sys.path.append(str(Path(__file__).parents[2]))

from jobs.simulator.stop_reasons import StopReason
from jobs.simulator.usage import MemoryCgroup, disk_use, is_in_memory, memory_use, own_cgroup, threads

READY_FD = 3
CHECK_DISK_SECONDS = 1.0
CHECK_MEMORY_SECONDS = 0.25
SIMULATOR_END_SECONDS = 0.2

PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


# Processes


def descendants() -> list[int]:
    """Return all processes below this one, including orphans, because this process is a subreaper."""
    pids = [os.getpid()]
    for pid in pids:
        pids += _children(pid)
    return pids[1:]


def _children(pid: int) -> list[int]:
    """Return the children of all threads of a process; none if it has ended."""
    pids: list[int] = []
    for thread in threads(pid):
        with contextlib.suppress(OSError):
            pids += map(int, (thread / "children").read_text().split())
    return pids


def _send_signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _reap() -> dict[int, int]:
    """Reap all children that have ended; return their wait statuses by process id."""
    ended = {}
    try:
        while (result := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            ended[result[0]] = result[1]
    except ChildProcessError:
        pass
    return ended


def _children_remain() -> bool:
    """Return whether any child is alive or not yet reaped; unlike reading /proc, this misses none."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _kill_descendants() -> dict[int, int]:
    """Kill and reap every descendant in any session; return their wait statuses by process id.

    They can fork meanwhile, but not beyond their limit, because dead processes count until they are reaped.
    """
    ended = _reap()
    while _children_remain():
        for pid in descendants():
            _send_signal(pid, signal.SIGKILL)
        time.sleep(0.002)
        ended |= _reap()
    return ended


class Supervisor:
    """One simulator, from its start until all its processes are gone."""

    def __init__(self, specification: dict[str, Any], worker: socket.socket) -> None:
        self.specification = specification
        self.worker = worker
        # What the second stage has reported.
        self.report: dict[str, Any] = {}
        self.simulator_pid = 0
        self.started_at = time.monotonic()
        self.stopped_for: StopReason | None = None
        # Wait statuses by process id.
        self.ended: dict[int, int] = {}
        self.listener: int | None = None
        self.next_disk_check_at = self.next_memory_check_at = 0.0
        self.files_in_memory_bytes = 0
        self.has_files_in_memory = is_in_memory(specification["watched"])
        self.cgroup = MemoryCgroup.create(specification["memory_bytes"], home=own_cgroup())

    def run(self) -> None:
        """Run until the simulator and all its descendants are gone and the worker has the result."""
        _libc.prctl(PR_SET_CHILD_SUBREAPER, *map(ctypes.c_ulong, (1, 0, 0, 0)))
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
        self.send({"ended": self.result(wall_seconds)})

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
            self.ended |= _reap()

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
                self.announce_start()
                continue
            self.report |= json.loads(message)
            received = {kind: data for _, kind, data in extra}
            self.simulator_pid = struct.unpack("3i", received[socket.SCM_CREDENTIALS])[0]
            if socket.SCM_RIGHTS in received:
                self.listener = struct.unpack("i", received[socket.SCM_RIGHTS])[0]

    def announce_start(self) -> None:
        """Notify the worker that the simulator runs and pass on its proxy's socket, or send why it does not run."""
        self.started_at = time.monotonic()
        if "layers" in self.report and "error" not in self.report:
            self.send({"started": self.report["layers"]}, descriptor=self.listener)
        else:
            error = self.report.get("error", "the sandbox could not be set up")
            self.send({"failed": error, "file_fault": self.report.get("file_fault", False)})

    def obey(self, order: bytes) -> None:
        """Interrupt the simulator, or kill all processes; no message means that the worker has died."""
        if order == b"interrupt":
            self.signal_simulator(signal.SIGINT)
        else:
            self.kill()

    def signal_simulator(self, number: int) -> None:
        """Signal only the simulator, because bubblewrap's own processes must see it end."""
        if self.simulator_pid in descendants():
            _send_signal(self.simulator_pid, number)

    def kill(self) -> None:
        """Kill all processes, the simulator first: bubblewrap reports its usage only if it outlives it."""
        self.signal_simulator(signal.SIGKILL)
        deadline = time.monotonic() + SIMULATOR_END_SECONDS
        while self.child_pid not in self.ended and time.monotonic() < deadline:
            time.sleep(0.002)
            self.ended |= _reap()
        self.ended |= _kill_descendants()

    def stop(self, reason: StopReason) -> None:
        """Kill all processes; the first reason counts."""
        self.stopped_for = self.stopped_for or reason
        self.kill()

    @property
    def seconds_left(self) -> float:
        return float(self.started_at + self.specification["wall_seconds"] - time.monotonic())

    def check_time(self) -> None:
        """Kill a simulator that runs past its time, for example because the worker is suspended."""
        if self.seconds_left <= 0:
            self.stop(StopReason.OVERTIME)

    def check_use(self) -> None:
        """Check disk and memory, each when it is due."""
        now = time.monotonic()
        if now >= self.next_disk_check_at:
            self.next_disk_check_at = now + CHECK_DISK_SECONDS
            self.check_disk()
        self.check_memory_when_due()

    def check_memory_when_due(self) -> None:
        """Check memory, at most every `CHECK_MEMORY_SECONDS`."""
        if time.monotonic() >= self.next_memory_check_at:
            self.check_memory()
            self.next_memory_check_at = time.monotonic() + CHECK_MEMORY_SECONDS

    def check_disk(self) -> None:
        """Kill a simulator whose private directory exceeds its limit."""
        limit = self.specification["disk_bytes"]
        used = disk_use(self.specification["watched"], limit=limit, on_entry=self.check_memory_when_due)
        self.files_in_memory_bytes = used if self.has_files_in_memory else 0
        if used > limit:
            self.stop(StopReason.DISK_FLOOD)

    def check_memory(self) -> None:
        """Kill a simulator whose processes together exceed the memory limit."""
        if self.cgroup is not None:
            is_exceeded = self.cgroup.is_exceeded()
        else:
            limit = self.specification["memory_bytes"] - self.files_in_memory_bytes
            is_exceeded = memory_use(descendants(), limit=limit) > limit
        if is_exceeded:
            self.stop(StopReason.MEMORY_LIMIT)

    def result(self, wall_seconds: float) -> dict[str, Any]:
        """Return the result for the worker; times in seconds, memory in bytes."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "status": os.waitstatus_to_exitcode(self.ended[self.child_pid]),
            "stopped_for": self.stopped_for,
            "wall_seconds": wall_seconds,
            "cpu_seconds": used.ru_utime + used.ru_stime,
            "peak_memory_bytes": used.ru_maxrss * 1024,
        }

    def send(self, message: dict[str, Any], *, descriptor: int | None = None) -> None:
        """Send a message to the worker, unless it has died."""
        with contextlib.suppress(OSError):
            passed = [] if descriptor is None else [descriptor]
            socket.send_fds(self.worker, [json.dumps(message).encode()], passed)


if __name__ == "__main__":
    Supervisor(json.loads(sys.argv[1]), socket.socket(fileno=0)).run()
