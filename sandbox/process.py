"""One program in the sandbox: its start, its output, its limits and its end."""

import contextlib
import functools
import os
import socket
import stat
import threading
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import IO, Any, Self

from sandbox.client import END_SECONDS, LauncherFailed, SupervisorClient
from sandbox.confinement import Confinement, Sandbox
from sandbox.identity import LeasedUser, tasks_of_this_user
from sandbox.layers import Layer
from sandbox.private_directory import PrivateDirectory
from sandbox.stop_reasons import SandboxStop
from sandbox.streams import LineSplitter, Log, SafeCallback

CHUNK_BYTES = 65536
START_SECONDS = 30.0

OnLine = Callable[[str, str], None]
OnLineEnd = Callable[[str], None]
Proxy = Callable[[socket.socket], contextlib.AbstractContextManager[object]]


def ignore_line_end(_stream: str) -> None:
    """Do nothing at the end of a line."""


class NotStarted(Exception):
    """The program could not be started; the message says why."""


class LauncherLost(NotStarted):
    """The launcher died or hung before the program ran; another start can work."""


class NotExecutable(NotStarted):
    """The sandbox works, but the kernel does not execute the program's file."""


@dataclass(frozen=True, kw_only=True)
class RunLimits:
    """The limits of one program.

    `wall_seconds` applies if the caller does not stop the program earlier. `memory_bytes` limits the memory of
    all processes together, and the address space of each. `cpu_seconds`, `file_bytes` (largest file) and
    `open_files` apply to each process; `processes` counts threads too. `disk_bytes` limits the whole private
    directory, `log_bytes` the stored part of each stream, and `output_bytes` the output of both streams.
    """

    wall_seconds: float
    cpu_seconds: int
    memory_bytes: int
    file_bytes: int
    disk_bytes: int
    processes: int
    open_files: int
    log_bytes: int
    output_bytes: int


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a program ended.

    One of `exit_status` and `signal` is None; both are if its supervisor was killed. `stopped_for` is the first
    reason given for stopping it, a `SandboxStop`. `wall_seconds` is the time from the program's first instruction
    to its end. `cpu_seconds` and `peak_memory_bytes` (of the largest process) include the steps before that: about
    0.01 s and 15 MB.
    """

    exit_status: int | None
    signal: int | None
    stopped_for: str | None
    wall_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    layers: list[str]

    @property
    def is_lost(self) -> bool:
        """Return whether the launcher or the supervisor died, so that the run has no result."""
        is_unknown = self.exit_status is None and self.signal is None and self.stopped_for is None
        return is_unknown or self.stopped_for == SandboxStop.LOST


@dataclass(eq=False)
class ConfinedProcess:
    """A program in the sandbox. Use it as a context manager: leaving it kills and reaps all remaining processes.

    `on_line(stream, text)` receives every update of `stdout` and `stderr` immediately, in separate threads.
    `on_line_end(stream)` is called when the last update is final. Their exceptions are logged once and otherwise
    ignored. The logs are in the private directory. `proxy` is the program's only way out of its network
    namespace: it is called with a listening socket, which the program reaches at `proxy_port`, and its result is
    entered and left with the process. Updates for which `is_misleading_after_stop` is true are dropped then.
    """

    command: Sequence[str]
    _: KW_ONLY
    directory: PrivateDirectory
    sandbox: Sandbox
    limits: RunLimits
    readable: Sequence[Path]
    on_line: OnLine
    on_line_end: OnLineEnd = ignore_line_end
    proxy: Proxy | None = None
    proxy_port: int | None = None
    is_misleading_after_stop: Callable[[str], bool] = lambda _text: False

    def __post_init__(self) -> None:
        self.running_proxy = contextlib.ExitStack()
        self.supervisor = SupervisorClient()
        self.stopped_for: str | None = None
        self.layers: list[str] = []
        self.ended: Ended | None = None
        self.printed_bytes = 0
        self.lock = threading.Lock()
        self.user: LeasedUser | None = None
        self.drains: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the program and return when it runs. Raises NotStarted."""
        try:
            self.layers = self._launch()
            if self.proxy is not None:
                self.running_proxy.enter_context(self.proxy(take_listener(self.supervisor.received)))
                self.layers.append(Layer.PROXY)
        except (NotStarted, LauncherFailed) as error:
            self.close()
            kind = type(error) if isinstance(error, NotStarted) else LauncherLost
            # For example the errors of bubblewrap
            printed = self.directory.log("stderr").read_bytes()[-500:].decode(errors="replace").strip()
            raise kind(f"{error} ({printed})" if printed else str(error)) from None
        except BaseException:
            self.close()
            raise

    def wait(self, timeout: float | None) -> Ended | None:
        """Return how it ended, or None if it still runs after `timeout` seconds.

        Once it has ended, no descendant is alive and the logs are complete.
        """
        if self.ended is None:
            message = self.supervisor.receive(timeout)
            if message is None:
                return None
            self.close()
            self.ended = self._result(message.get("ended", {}))
        return self.ended

    def interrupt(self, reason: str) -> None:
        """Ask the program (SIGINT) to stop and to write a report of what it has finished."""
        self._order(b"interrupt", reason)

    def kill(self, reason: str) -> None:
        """Kill the program and all its descendants."""
        self._order(b"kill", reason)

    def stop(self, reason: str, *, grace_seconds: float = 3.0) -> Ended | None:
        """Interrupt the program and, if it has not ended after the grace period, kill it."""
        self.interrupt(reason)
        ended = self.wait(grace_seconds)
        if ended is None:
            self.kill(reason)
            ended = self.wait(END_SECONDS)
        return ended

    def close(self) -> None:
        """Kill and reap all remaining processes, finish the logs, and take back the private directory."""
        self.supervisor.close()
        self.running_proxy.close()
        for drain in self.drains:
            drain.join(END_SECONDS)
        self.drains = []
        user, self.user = self.user, None
        if user is not None:
            try:
                self.directory.take_back()
            finally:
                # A disk that became read-only must not keep the id reserved.
                user.release()

    def _launch(self) -> list[str]:
        """Start the program and return the active layers. Raises NotStarted or LauncherFailed."""
        self.user = LeasedUser.lease()
        confinement = Confinement(
            directory=self.directory,
            readable=self.readable,
            proxy_port=self.proxy_port if self.proxy else None,
            uid=self.user.uid if self.user else None,
            resource_limits=resource_limits(self.limits, other_tasks=0 if self.user else tasks_of_this_user()),
            memory_bytes=self.limits.memory_bytes,
            disk_bytes=self.limits.disk_bytes,
            wall_seconds=self.limits.wall_seconds,
        )
        if self.user is not None:
            self.directory.hand_over(self.user.uid)
        specification = self.sandbox.specification(self.command, confinement)
        with self._output("stdout") as stdout, self._output("stderr") as stderr:
            message = self.supervisor.start(
                specification, stdout=stdout.fileno(), stderr=stderr.fileno(), timeout=START_SECONDS
            )
        if message is None:
            raise LauncherLost(f"the program did not start within {START_SECONDS:.0f} s")
        if "failed" in message:
            raise (NotExecutable if message.get("file_fault") else NotStarted)(message["failed"])
        if "started" not in message:
            raise LauncherLost("the launcher ended")
        return list(message["started"])

    def _output(self, stream: str) -> IO[bytes]:
        """Return the write end of a pipe for the program's output. A thread reads the other end."""
        reading, writing = os.pipe()
        drain = threading.Thread(
            target=self._drain, args=(stream, os.fdopen(reading, "rb", buffering=0)), daemon=True
        )
        drain.start()
        self.drains.append(drain)
        return os.fdopen(writing, "wb", buffering=0)

    def _drain(self, stream: str, pipe: IO[bytes]) -> None:
        """Read all of a stream, so that the program never waits for a reader."""
        log = Log(self.directory.log(stream), max_bytes=self.limits.log_bytes)
        update = SafeCallback(functools.partial(self._update, stream))
        line_end = SafeCallback(self.on_line_end)

        def end_line(line: str) -> None:
            log.write(line)
            line_end(stream)

        lines = LineSplitter(on_update=update, on_line=end_line)
        with pipe, contextlib.closing(log):
            while data := pipe.read(CHUNK_BYTES):
                if not self._is_flood(len(data)):
                    lines.feed(data)
            lines.finish()

    def _update(self, stream: str, text: str) -> None:
        """Pass on an update, unless the stop made it misleading."""
        if self.stopped_for is None or not self.is_misleading_after_stop(text):
            self.on_line(stream, text)

    def _is_flood(self, more_bytes: int) -> bool:
        """Count the output; kill the program if it exceeds the limit."""
        with self.lock:
            before = self.printed_bytes
            self.printed_bytes += more_bytes
        if before <= self.limits.output_bytes < self.printed_bytes:
            self.kill(SandboxStop.OUTPUT_FLOOD)
        return self.printed_bytes > self.limits.output_bytes

    def _order(self, order: bytes, reason: str) -> None:
        """Send an order to the supervisor, and record the reason unless an earlier one is recorded."""
        with self.lock:
            self.stopped_for = self.stopped_for or reason
        self.supervisor.order(order)

    def _result(self, end: dict[str, Any]) -> Ended:
        status = end.get("status")
        died = status is None or status < 0
        return Ended(
            exit_status=None if died else status,
            signal=-status if died and status is not None else None,
            stopped_for=self.stopped_for or end.get("stopped_for"),
            wall_seconds=end.get("wall_seconds", 0.0),
            cpu_seconds=end.get("cpu_seconds", 0.0),
            peak_memory_bytes=end.get("peak_memory_bytes", 0),
            layers=self.layers,
        )


def take_listener(descriptors: list[int]) -> socket.socket:
    """Remove the proxy's socket from a list of received descriptors and return it.

    Raises NotStarted unless the list contains exactly one listening IPv4 socket.
    """
    if len(descriptors) != 1:
        raise NotStarted(f"expected one socket for the proxy, received {len(descriptors)} descriptors")
    if not stat.S_ISSOCK(os.fstat(descriptors[0]).st_mode):
        raise NotStarted("the proxy's descriptor is not a socket")
    listener = socket.socket(fileno=descriptors.pop())
    is_listening = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if listener.family != socket.AF_INET or not is_listening:
        listener.close()
        raise NotStarted("the proxy's socket is not a listening IPv4 socket")
    return listener


def resource_limits(limits: RunLimits, *, other_tasks: int) -> dict[str, tuple[int, int]]:
    """Return limits for setrlimit(2); `other_tasks` is how many of the user's tasks count against RLIMIT_NPROC.

    The hard CPU limit is one second above the soft one, so that SIGXCPU shows which limit was reached.
    """
    processes = other_tasks + limits.processes
    return {
        "RLIMIT_CPU": (limits.cpu_seconds, limits.cpu_seconds + 1),
        "RLIMIT_AS": (limits.memory_bytes, limits.memory_bytes),
        "RLIMIT_FSIZE": (limits.file_bytes, limits.file_bytes),
        "RLIMIT_NPROC": (processes, processes),
        "RLIMIT_NOFILE": (limits.open_files, limits.open_files),
        "RLIMIT_CORE": (0, 0),
    }
