"""The supervisor of one program at a time: a process that the launcher forks.

It starts the confined process (`sandbox.confine`), adopts orphaned processes of the run, monitors the run's disk
and memory use, and accepts another run only when no process of the last one is alive. On its socket to the caller,
it accepts `interrupt` and `kill`. EOF on this socket means that the caller has died, and has the effect of `kill`.
EOF on its socket to the launcher means that the launcher has died, and has the same effect.
"""

import contextlib
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from typing import Any, NoReturn

from sandbox import children, confine, namespaces
from sandbox.layers import Layer
from sandbox.stop_reasons import SandboxStop
from sandbox.usage import MemoryCgroup, disk_use, is_in_memory, memory_use, own_cgroup

CHECK_DISK_SECONDS = 1.0
CHECK_MEMORY_SECONDS = 0.25
# Sent to a confined process that has joined bubblewrap's namespaces, after the supervisor has become its parent.
ADOPTED = b"adopted"


# The run's socket to the caller, its standard output and its standard error.
DESCRIPTORS = 3
REQUEST_BYTES = 1 << 18
IDLE = b"idle"


def serve(control: socket.socket) -> None:
    """Run the launcher's requests one after the other until the launcher dies.

    Also end after a run that has left a descriptor, and after one with a control group, which the kernel keeps
    while memory of this process is charged to it. No run therefore affects another one.
    """
    children.adopt_orphans()
    confine.ignored_signals()
    # Both ends must stay open.
    ends = children.watch_children()
    before = _count_descriptors()
    is_clean = True
    while is_clean:
        try:
            request, descriptors, _, _ = socket.recv_fds(control, REQUEST_BYTES, DESCRIPTORS)
        except ConnectionResetError:
            return
        if not request:
            return
        for descriptor in descriptors:
            # Bubblewrap must not inherit them.
            os.set_inheritable(descriptor, False)  # noqa: FBT003 - its only form
        caller, stdout, stderr = descriptors
        with socket.socket(fileno=caller) as connection:
            supervisor = RunSupervisor(json.loads(request), connection, launcher=control, wakeup=ends[0])
            result = supervisor.run(stdout, stderr)
            is_clean = supervisor.cgroup is None and _count_descriptors() == before + 1
            if is_clean:
                # First, so that the launcher knows it when the caller starts its next run.
                with contextlib.suppress(OSError):
                    control.send(IDLE)
            supervisor.send({"ended": result})


def _count_descriptors() -> int:
    """Return how many descriptors are open, with one for the listing itself."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - quicker


class RunSupervisor:
    """One program, from its start until all its processes are gone."""

    def __init__(
        self,
        specification: dict[str, Any],
        caller: socket.socket,
        *,
        launcher: socket.socket,
        wakeup: socket.socket,
    ) -> None:
        self.specification = specification
        self.caller = caller
        # Becomes readable when the launcher dies.
        self.launcher = launcher
        # Becomes readable when a child ends.
        self.wakeup = wakeup
        self.pause: socket.socket | None = None
        self.has_user_namespace = Layer.USER_NAMESPACE in specification["confined"]["layers"]
        # The messages of the confined process, merged.
        self.report: dict[str, Any] = {}
        self.child_pid = -1
        # Whether the first child only forks the confined process, which this process then adopts.
        self.is_adopting = False
        self.program_pid = 0
        self.has_failed = False
        self.started_at = time.monotonic()
        self.stopped_for: SandboxStop | None = None
        # Wait statuses by process id.
        self.ended: dict[int, int] = {}
        self.cpu_seconds = 0.0
        self.peak_memory_kilobytes = 0
        self.listener: int | None = None
        self.next_disk_check_at = self.started_at + CHECK_DISK_SECONDS
        self.next_memory_check_at = self.started_at + CHECK_MEMORY_SECONDS
        self.files_in_memory_bytes = 0
        self.has_files_in_memory = is_in_memory(specification["watched"])
        self.cgroup = MemoryCgroup.create(specification["memory_bytes"], home=own_cgroup())

    def run(self, stdout: int, stderr: int) -> dict[str, Any]:
        """Run until the program and all its descendants are gone; return the result for the caller."""
        self.start(stdout, stderr)
        while self.program_pid not in self.ended and not self.has_failed:
            self.step()
            self.check_limits()
        wall_seconds = time.monotonic() - self.started_at
        self.kill()
        self.check_disk()
        if self.cgroup is not None:
            self.check_memory()
            self.cgroup.leave()
            self.cgroup.remove()
        if self.listener is not None:
            os.close(self.listener)
        return self.result(wall_seconds)

    def start(self, stdout: int, stderr: int) -> None:
        """Tell the caller who supervises its run, then start bubblewrap, if it is used, or the confined process."""
        self.ready, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ready.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.ready.settimeout(0)
        # The confined process's; until it has started, they are open here.
        self.output = [stdout, stderr]
        try:
            try:
                handle = os.pidfd_open(os.getpid())
            except OSError as error:
                raise OSError(error.errno, f"pidfd_open: {error.strerror}") from error
            self.send({"supervisor": os.getpid()}, descriptor=handle)
            os.close(handle)
            if not self.specification["bubblewrap"]:
                return self.start_confined()
            self.pause = namespaces.start_bubblewrap(self.specification["bubblewrap"], stderr=stderr)
        except OSError as error:
            self.fail_start(error)

    def start_confined(self) -> None:
        """Start the confined process with the run's output, in bubblewrap's namespaces if it is used."""
        opened: dict[str, int] = {}
        try:
            if self.pause is not None:
                opened = namespaces.open_namespaces(self.pause, has_user_namespace=self.has_user_namespace)
            self.fork_confined(opened)
        except (OSError, namespaces.NotJoined) as error:
            self.fail_start(error)
        namespaces.close(opened)
        self.close_start()
        if self.cgroup is not None:
            self.cgroup.leave()

    def fork_confined(self, opened: dict[str, int]) -> None:
        """Fork the confined process in bubblewrap's process namespace. If that is impossible, it forks again."""
        is_inside = bool(opened) and not self.has_user_namespace and namespaces.can_return()
        self.is_adopting = bool(opened) and not is_inside
        with namespaces.children_in(opened["pid"]) if is_inside else contextlib.nullcontext():
            self.child_pid = os.fork()
            # The new process must not leave this block.
            if self.child_pid == 0:
                self.become_confined(opened)

    def fail_start(self, error: Exception) -> None:
        """Let `read_ready` receive an error like one of the confined process."""
        self.theirs.send(json.dumps({"error": f"the sandbox cannot be started: {error}"}).encode())
        self.close_start()

    def close_start(self) -> None:
        """Close what only the confined process needs. If it has not started, it cannot start any more."""
        self.theirs.close()
        for descriptor in self.output:
            os.close(descriptor)
        self.output = []

    def become_confined(self, opened: dict[str, int]) -> NoReturn:
        """Execute the program in this new process, without any descriptor of the supervisor."""
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            os.dup2(self.output[0], 1)
            os.dup2(self.output[1], 2)
            children.close_descriptors(self.theirs.fileno(), *opened.values())
            confine.confine_and_exec(
                self.specification["confined"], self.theirs, opened, is_adopted=self.is_adopting
            )
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)

    def step(self) -> None:
        """Wait for the next event and handle it."""
        sources: list[Any] = [self.caller, self.wakeup, self.launcher]
        if self.ready.fileno() >= 0:
            sources.append(self.ready)
        if self.output and self.pause is not None:
            sources.append(self.pause)
        timeout = min(CHECK_MEMORY_SECONDS, max(0.0, self.seconds_left))
        readable, _, _ = select.select(sources, [], [], timeout)
        if self.wakeup in readable:
            self.wakeup.recv(4096)
            self.reap()
        if self.pause in readable:
            self.start_confined()
        if self.ready in readable:
            self.read_ready()
        if self.caller in readable:
            self.obey(self.caller.recv(64))
        if self.launcher in readable:
            self.stop(SandboxStop.LOST)

    def reap(self) -> None:
        """Reap ended processes. The first child may only have forked the confined process."""
        self.record(children.reap())
        if self.is_adopting and self.child_pid in self.ended:
            with contextlib.suppress(OSError):
                self.ready.send(ADOPTED)

    def record(self, reaped: list[children.Reaped]) -> None:
        """Record the end of processes and their use of CPU time and memory."""
        for each in reaped:
            self.ended[each.pid] = each.status
            self.cpu_seconds += each.used.ru_utime + each.used.ru_stime
            self.peak_memory_kilobytes = max(self.peak_memory_kilobytes, each.used.ru_maxrss)

    def read_ready(self) -> None:
        """Receive messages of the confined process until EOF: its layers, and perhaps a socket or an error.

        The kernel adds the sender's process id as seen from here, outside any namespace.
        """
        while self.ready.fileno() >= 0:
            try:
                room = socket.CMSG_SPACE(struct.calcsize("3i")) + socket.CMSG_SPACE(struct.calcsize("i"))
                message, extra, _, _ = self.ready.recvmsg(65536, room)
            except BlockingIOError:
                return
            except ConnectionResetError:
                # The confined process ended without reading ADOPTED. Its earlier messages can still be received.
                continue
            if not message:
                self.ready.close()
                self.announce_start()
                continue
            self.report |= json.loads(message)
            received = {kind: data for _, kind, data in extra}
            self.program_pid = struct.unpack("3i", received[socket.SCM_CREDENTIALS])[0]
            if socket.SCM_RIGHTS in received:
                self.listener = struct.unpack("i", received[socket.SCM_RIGHTS])[0]

    def announce_start(self) -> None:
        """Notify the caller that the program runs, and send its proxy's socket; or send the error."""
        self.started_at = time.monotonic()
        self.has_failed = "layers" not in self.report or "error" in self.report
        if not self.has_failed:
            self.send({"started": self.report["layers"]}, descriptor=self.listener)
        else:
            error = self.report.get("error", "the sandbox could not be set up")
            self.send({"failed": error, "file_fault": self.report.get("file_fault", False)})

    def obey(self, order: bytes) -> None:
        """Interrupt the program, or kill all processes. An empty order (EOF) means that the caller has died."""
        if order != b"interrupt":
            self.kill()
        # The process id of a reaped program could be reused.
        elif self.program_pid and self.program_pid not in self.ended:
            children.send_signal(self.program_pid, signal.SIGINT)

    def kill(self) -> None:
        """Kill all processes, then receive the last messages of the confined process."""
        self.close_start()
        if self.pause is not None:
            self.pause.close()
        self.record(children.kill_descendants())
        self.read_ready()

    def stop(self, reason: SandboxStop) -> None:
        """Kill all processes and record the reason, unless an earlier one is recorded."""
        self.stopped_for = self.stopped_for or reason
        self.kill()

    @property
    def seconds_left(self) -> float:
        return float(self.started_at + self.specification["wall_seconds"] - time.monotonic())

    def check_limits(self) -> None:
        """Check the time, which also ends the run of a suspended caller, and disk and memory when they are due."""
        if self.seconds_left <= 0:
            self.stop(SandboxStop.OVERTIME)
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
        """Kill a program whose private directory exceeds its limit."""
        limit = self.specification["disk_bytes"]
        used = disk_use(self.specification["watched"], limit=limit, on_entry=self.check_memory_when_due)
        self.files_in_memory_bytes = used if self.has_files_in_memory else 0
        if used > limit:
            self.stop(SandboxStop.DISK_FLOOD)

    def check_memory(self) -> None:
        """Kill a program whose processes together exceed the memory limit."""
        if self.cgroup is not None:
            is_exceeded = self.cgroup.is_exceeded()
        else:
            limit = self.specification["memory_bytes"] - self.files_in_memory_bytes
            is_exceeded = memory_use(children.descendants(), limit=limit) > limit
        if is_exceeded:
            self.stop(SandboxStop.MEMORY_LIMIT)

    def result(self, wall_seconds: float) -> dict[str, Any]:
        """Return the result for the caller; times in seconds, memory in bytes."""
        status = self.ended.get(self.program_pid)
        return {
            "status": None if status is None else os.waitstatus_to_exitcode(status),
            "stopped_for": self.stopped_for,
            "wall_seconds": wall_seconds,
            "cpu_seconds": self.cpu_seconds,
            "peak_memory_bytes": self.peak_memory_kilobytes * 1024,
        }

    def send(self, message: dict[str, Any], *, descriptor: int | None = None) -> None:
        """Send a message to the caller, unless it has died."""
        with contextlib.suppress(OSError):
            passed = [] if descriptor is None else [descriptor]
            socket.send_fds(self.caller, [json.dumps(message).encode()], passed)
