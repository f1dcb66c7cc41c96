"""The supervisor of one simulator: a process that the launcher forks.

It starts the second stage (`jobs.simulator.enter`), adopts orphaned processes of the run, monitors the run's disk
and memory use, and exits only when no process of the run is alive. On its socket to the worker, it accepts
`interrupt` and `kill`. EOF on this socket means that the worker has died, and has the effect of `kill`.
"""

import contextlib
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from typing import Any, NoReturn

from jobs.simulator import children, enter, namespaces
from jobs.simulator.stop_reasons import StopReason
from jobs.simulator.usage import MemoryCgroup, disk_use, is_in_memory, memory_use, own_cgroup

CHECK_DISK_SECONDS = 1.0
CHECK_MEMORY_SECONDS = 0.25
# Sent to a second stage that has joined bubblewrap's namespaces, after the supervisor has become its parent.
ADOPTED = b"adopted"


class Supervisor:
    """One simulator, from its start until all its processes are gone."""

    def __init__(self, specification: dict[str, Any], worker: socket.socket, *, launcher: int) -> None:
        self.specification = specification
        self.worker = worker
        # Becomes readable when the launcher dies.
        self.launcher = launcher
        self.pause: socket.socket | None = None
        # The messages of the second stage, merged.
        self.report: dict[str, Any] = {}
        self.child_pid = -1
        self.simulator_pid = 0
        self.has_failed = False
        self.started_at = time.monotonic()
        self.stopped_for: StopReason | None = None
        # Wait statuses by process id.
        self.ended: dict[int, int] = {}
        self.listener: int | None = None
        self.next_disk_check_at = self.started_at + CHECK_DISK_SECONDS
        self.next_memory_check_at = self.started_at + CHECK_MEMORY_SECONDS
        self.files_in_memory_bytes = 0
        self.has_files_in_memory = is_in_memory(specification["watched"])
        self.cgroup = MemoryCgroup.create(specification["memory_bytes"], home=own_cgroup())

    def run(self, stdout: int, stderr: int) -> None:
        """Run until the simulator and all its descendants are gone and the worker has the result."""
        self.send({"supervisor": os.getpid()})
        children.adopt_orphans()
        self.wakeup, self.notify = children.watch_children()
        self.start(stdout, stderr)
        while self.simulator_pid not in self.ended and not self.has_failed:
            self.step()
            self.check_time()
            self.check_use()
        wall_seconds = time.monotonic() - self.started_at
        self.kill()
        self.check_disk()
        if self.cgroup is not None:
            self.check_memory()
            self.cgroup.remove()
        self.send({"ended": self.result(wall_seconds)})

    def start(self, stdout: int, stderr: int) -> None:
        """Start bubblewrap, if it is used, and the second stage with the run's output; close the output here."""
        self.ready, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ready.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.ready.settimeout(0)
        try:
            if self.specification["bubblewrap"]:
                self.pause = namespaces.start_bubblewrap(self.specification["bubblewrap"], stderr=stderr)
            self.child_pid = os.fork()
        except OSError as error:
            # `read_ready` receives this like an error of the second stage.
            theirs.send(json.dumps({"error": f"the sandbox cannot be started: {error}"}).encode())
        if self.child_pid == 0:
            self.become_second_stage(theirs, stdout, stderr)
        if self.cgroup is not None:
            self.cgroup.leave()
        theirs.close()
        os.close(stdout)
        os.close(stderr)

    def become_second_stage(self, first_stage: socket.socket, stdout: int, stderr: int) -> NoReturn:
        """Execute the simulator in this new process, without any descriptor of the supervisor."""
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            os.dup2(stdout, 1)
            os.dup2(stderr, 2)
            children.close_descriptors(first_stage.fileno(), *([self.pause.fileno()] if self.pause else []))
            enter.enter(self.specification["second_stage"], first_stage, self.pause)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)

    def step(self) -> None:
        """Wait for the next event and handle it."""
        sources: list[Any] = [self.worker, self.wakeup, self.launcher]
        if self.ready.fileno() >= 0:
            sources.append(self.ready)
        timeout = min(CHECK_MEMORY_SECONDS, max(0.0, self.seconds_left))
        readable, _, _ = select.select(sources, [], [], timeout)
        if self.wakeup in readable:
            self.wakeup.recv(4096)
            self.reap()
        if self.ready in readable:
            self.read_ready()
        if self.worker in readable:
            self.obey(self.worker.recv(64))
        if self.launcher in readable:
            self.stop(StopReason.LOST)

    def reap(self) -> None:
        """Reap ended processes. With bubblewrap, the first child may only have forked the second stage."""
        ended = children.reap()
        self.ended |= ended
        if self.pause and self.child_pid in ended:
            with contextlib.suppress(OSError):
                self.ready.send(ADOPTED)

    def read_ready(self) -> None:
        """Receive messages of the second stage until EOF: its layers, and perhaps a socket or an error.

        The kernel adds the sender's process id as seen from here, outside any namespace.
        """
        while self.ready.fileno() >= 0:
            try:
                room = socket.CMSG_SPACE(struct.calcsize("3i")) + socket.CMSG_SPACE(struct.calcsize("i"))
                message, extra, _, _ = self.ready.recvmsg(65536, room)
            except BlockingIOError:
                return
            except ConnectionResetError:
                # The second stage ended without reading ADOPTED. Its earlier messages can still be received.
                continue
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
        """Notify the worker that the simulator runs, and send its proxy's socket; or send the error."""
        self.started_at = time.monotonic()
        self.has_failed = "layers" not in self.report or "error" in self.report
        if not self.has_failed:
            self.send({"started": self.report["layers"]}, descriptor=self.listener)
        else:
            error = self.report.get("error", "the sandbox could not be set up")
            self.send({"failed": error, "file_fault": self.report.get("file_fault", False)})

    def obey(self, order: bytes) -> None:
        """Interrupt the simulator, or kill all processes. An empty order (EOF) means that the worker has died."""
        if order == b"interrupt":
            self.interrupt()
        else:
            self.kill()

    def interrupt(self) -> None:
        """Interrupt only the simulator, unless it has been reaped, because its process id could then be reused."""
        if self.simulator_pid and self.simulator_pid not in self.ended:
            children.send_signal(self.simulator_pid, signal.SIGINT)

    def kill(self) -> None:
        """Kill all processes, then receive the last messages of the second stage."""
        if self.pause is not None:
            self.pause.close()
        self.ended |= children.kill_descendants()
        self.read_ready()

    def stop(self, reason: StopReason) -> None:
        """Kill all processes and record the reason, unless an earlier one is recorded."""
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
            is_exceeded = memory_use(children.descendants(), limit=limit) > limit
        if is_exceeded:
            self.stop(StopReason.MEMORY_LIMIT)

    def result(self, wall_seconds: float) -> dict[str, Any]:
        """Return the result for the worker; times in seconds, memory in bytes."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        status = self.ended.get(self.simulator_pid)
        return {
            "status": None if status is None else os.waitstatus_to_exitcode(status),
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
