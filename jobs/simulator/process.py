"""Run one simulator process in the sandbox: read its output, watch its limits and report its end."""

import contextlib
import functools
import json
import logging
import os
import re
import socket
import stat
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from jobs.simulator.command import PROXY_PORT
from jobs.simulator.logs import Log
from jobs.simulator.sandbox import Confinement, LeasedUser, PrivateDirectory, Sandbox, tasks_of_this_user

logger = logging.getLogger(__name__)

LONGEST_LINE_BYTES = 8192
CHUNK_BYTES = 65536
START_SECONDS = 30.0
END_SECONDS = 15.0
# One is expected; room for a second one allows refusing it.
MOST_DESCRIPTORS = 2

OnLine = Callable[[str, str], None]
OnLineEnd = Callable[[str], None]
Proxy = Callable[[socket.socket], contextlib.AbstractContextManager[object]]


def unheard(_stream: str) -> None:
    """Ignore output that has no listener."""


class SimulatorNotStarted(Exception):
    """The simulator could not be started; the message says what failed."""


class NotExecutable(SimulatorNotStarted):
    """The sandbox is set up, but the kernel refuses to run the simulator's file."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of one simulator.

    `wall_seconds` applies if nobody stops the simulator in time. `memory_bytes` limits the memory of all
    processes together, and the address space of each. `cpu_seconds`, `file_bytes` (largest file) and `open_files`
    apply to each process; `processes` counts threads too. `disk_bytes` limits the whole private directory,
    `log_bytes` the stored part of each stream, and `output_bytes` the output of both before it counts as a flood.
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
    """How a simulator ended.

    One of `exit_status` and `signal` is None; both are if its supervisor was killed. `stopped_for` is the first
    reason given for stopping it, or `output_flood`, `disk_flood`, `memory_limit` or `overtime`. `wall_seconds` runs
    from the simulator's first instruction to its end. `cpu_seconds` and `peak_memory_bytes` (of the largest
    process) include the launcher's last steps: about 0.05 s and 10 MB.
    """

    exit_status: int | None
    signal: int | None
    stopped_for: str | None
    wall_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    layers: list[str]


class Lines:
    """Splits a stream into updates, each ended by CR or LF, and into the lines a terminal would finally show."""

    def __init__(self, *, on_update: Callable[[str], None], on_line: Callable[[str], None]) -> None:
        self.on_update = on_update
        self.on_line = on_line
        self.pending = b""
        self.shown = ""

    def feed(self, data: bytes) -> None:
        """Process the next piece of output, which can be cut anywhere."""
        *pieces, last = re.split(rb"([\r\n])", data)
        for text, end in zip(pieces[::2], pieces[1::2], strict=True):
            self.add(text)
            self.end_update()
            if end == b"\n":
                self.end_line()
        self.add(last)

    def finish(self) -> None:
        """Finish the stream, which may have ended in the middle of a line."""
        self.end_update()
        if self.shown:
            self.end_line()

    def add(self, text: bytes) -> None:
        self.pending += text[: LONGEST_LINE_BYTES - len(self.pending)]

    def end_update(self) -> None:
        if self.pending:
            self.shown = self.pending.decode(errors="replace")
            self.pending = b""
            self.on_update(self.shown)

    def end_line(self) -> None:
        self.on_line(self.shown)
        self.shown = ""


class SimulatorProcess:
    """A simulator in the sandbox. Use it as a context manager: leaving it kills and reaps all remaining processes.

    `on_line(stream, text)` receives every update of `stdout` and `stderr` immediately, in separate threads.
    `on_line_end(stream)` is called when the last update is final. Their exceptions are logged once and otherwise
    ignored. The logs are in the private directory. `proxy` serves the simulator's only exit from its network
    namespace: it is called with a listening socket, and is entered and left with the process.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        directory: PrivateDirectory,
        sandbox: Sandbox,
        limits: Limits,
        readable: Sequence[Path],
        on_line: OnLine,
        on_line_end: OnLineEnd = unheard,
        proxy: Proxy | None = None,
    ) -> None:
        self.command = command
        self.directory = directory
        self.sandbox = sandbox
        self.limits = limits
        self.readable = readable
        self.on_line = on_line
        self.on_line_end = on_line_end
        self.proxy = proxy
        self.serving = contextlib.ExitStack()
        self.received: list[int] = []
        self.stopped_for: str | None = None
        self.layers: list[str] = []
        self.ended: Ended | None = None
        self.printed_bytes = 0
        self.lock = threading.Lock()
        self.user: LeasedUser | None = None
        self.launcher: subprocess.Popen[bytes] | None = None
        self.drains: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the simulator and return when it runs. Raises SimulatorNotStarted."""
        try:
            self._launch()
            message = self._receive(START_SECONDS) or {"failed": f"not started after {START_SECONDS:.0f} s"}
            if "started" not in message:
                kind = NotExecutable if message.get("file_fault") else SimulatorNotStarted
                raise kind(message.get("failed", "the launcher ended"))
            self.layers = message["started"]
            self._serve_exit()
        except SimulatorNotStarted as error:
            self.close()
            raise type(error)(f"{error}{self._last_words()}") from None
        except BaseException:
            self.close()
            raise

    def wait(self, timeout: float | None) -> Ended | None:
        """Return how it ended, or None if it still runs after `timeout` seconds.

        Once it has ended, no descendant is alive and the logs are complete.
        """
        if self.ended is None:
            message = self._receive(timeout)
            if message is None:
                return None
            self.close()
            self.ended = self._judge(message.get("ended", {}))
        return self.ended

    def interrupt(self, reason: str) -> None:
        """Ask the simulator (SIGINT) to stop and to write a report of what it has finished."""
        self._order(b"interrupt", reason)

    def kill(self, reason: str) -> None:
        """Kill the simulator and all its descendants."""
        self._order(b"kill", reason)

    def stop(self, reason: str, *, grace_seconds: float = 3.0) -> Ended | None:
        """Interrupt the simulator and, if it has not ended after the grace period, kill it."""
        self.interrupt(reason)
        ended = self.wait(grace_seconds)
        if ended is None:
            self.kill(reason)
            ended = self.wait(END_SECONDS)
        return ended

    def close(self) -> None:
        """Kill and reap all remaining processes, finish the logs, and take the private directory back."""
        if self.launcher is not None:
            self.worker_end.close()
            try:
                self.launcher.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.launcher.kill()
                self.launcher.wait()
            self.launcher = None
        self.serving.close()
        for received in self.received:
            os.close(received)
        self.received = []
        for drain in self.drains:
            drain.join(END_SECONDS)
        self.drains = []
        if self.user is not None:
            self.directory.take_back()
            self.user.release()
            self.user = None

    def _launch(self) -> None:
        """Start the launcher with a socket to this process as its standard input."""
        self.user = LeasedUser.lease()
        confinement = Confinement(
            directory=self.directory,
            readable=self.readable,
            exit_port=PROXY_PORT if self.proxy else None,
            uid=self.user.uid if self.user else None,
            resource_limits=resource_limits(self.limits, others=0 if self.user else tasks_of_this_user()),
            memory_bytes=self.limits.memory_bytes,
            disk_bytes=self.limits.disk_bytes,
            wall_seconds=self.limits.wall_seconds,
        )
        if self.user is not None:
            self.directory.hand_over(self.user.uid)
        self.worker_end, launcher_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with launcher_end:
            self.launcher = subprocess.Popen(
                self.sandbox.launch_command(self.command, confinement),
                stdin=launcher_end.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env={},
                start_new_session=True,
            )
        for stream, pipe in (("stdout", self.launcher.stdout), ("stderr", self.launcher.stderr)):
            drain = threading.Thread(target=self._drain, args=(stream, pipe), daemon=True)
            drain.start()
            self.drains.append(drain)

    def _serve_exit(self) -> None:
        """Let the proxy serve the exit's socket. Raises SimulatorNotStarted if it is anything else."""
        if self.proxy is None:
            return
        self.serving.enter_context(self.proxy(take_listener(self.received)))
        self.layers = [*self.layers, "game_api_exit"]

    def _drain(self, stream: str, pipe: IO[bytes]) -> None:
        """Read all of a stream, so that the simulator never waits for a reader."""
        log = Log(self.directory.log(stream), most_bytes=self.limits.log_bytes)
        update = Quietly(functools.partial(self.on_line, stream))
        line_end = Quietly(self.on_line_end)

        def show(line: str) -> None:
            log.write(line)
            line_end(stream)

        lines = Lines(on_update=update, on_line=show)
        with pipe, contextlib.closing(log):
            while data := pipe.read(CHUNK_BYTES):
                if not self._is_flood(len(data)):
                    lines.feed(data)
            lines.finish()

    def _is_flood(self, more_bytes: int) -> bool:
        """Count the output; kill the simulator if it exceeds the limit."""
        with self.lock:
            before = self.printed_bytes
            self.printed_bytes += more_bytes
        if before <= self.limits.output_bytes < self.printed_bytes:
            self.kill("output_flood")
        return self.printed_bytes > self.limits.output_bytes

    def _order(self, order: bytes, reason: str) -> None:
        """Send an order to the launcher; the first reason given is the one that counts."""
        with self.lock:
            self.stopped_for = self.stopped_for or reason
        with contextlib.suppress(OSError):
            self.worker_end.send(order)

    def _receive(self, timeout: float | None) -> dict[str, Any] | None:
        """Return the launcher's next message: empty if it has died, None if none comes in time."""
        self.worker_end.settimeout(timeout)
        try:
            message, descriptors, _, _ = socket.recv_fds(self.worker_end, CHUNK_BYTES, MOST_DESCRIPTORS)
            self.received += descriptors
        except (TimeoutError, BlockingIOError):
            return None
        except ConnectionError:
            message = b""
        return json.loads(message) if message else {}

    def _judge(self, end: dict[str, Any]) -> Ended:
        """Translate the launcher's report. Bubblewrap reports death by a signal as a shell does, as 128 more."""
        status = end.get("status")
        if self.sandbox.bubblewrap and status is not None and status > 128:
            status = 128 - status
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

    def _last_words(self) -> str:
        """Return the end of stderr from before the simulator started, such as bubblewrap's errors."""
        text = self.directory.log("stderr").read_bytes()[-500:].decode(errors="replace").strip()
        return f" ({text})" if text else ""


def take_listener(descriptors: list[int]) -> socket.socket:
    """Return the one socket among received descriptors, out of the list.

    Raises SimulatorNotStarted unless there is exactly one listening IPv4 socket.
    """
    if len(descriptors) != 1:
        raise SimulatorNotStarted(f"{len(descriptors)} descriptors came for one exit")
    if not stat.S_ISSOCK(os.fstat(descriptors[0]).st_mode):
        raise SimulatorNotStarted("the exit is not a socket")
    listener = socket.socket(fileno=descriptors.pop())
    is_listening = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if listener.family != socket.AF_INET or not is_listening:
        listener.close()
        raise SimulatorNotStarted("the exit is not a listening socket of IPv4")
    return listener


class Quietly:
    """Calls a function and suppresses its exceptions; the first is logged."""

    def __init__(self, function: Callable[[str], None]) -> None:
        self.function = function
        self.failed = False

    def __call__(self, text: str) -> None:
        """Call it."""
        try:
            self.function(text)
        except Exception:
            if not self.failed:
                logger.exception("Reading the simulator's output failed; the simulator continues")
            self.failed = True


def resource_limits(limits: Limits, *, others: int) -> dict[str, tuple[int, int]]:
    """Return limits for setrlimit(2); `others` is the number of the user's tasks that count as its processes.

    The hard CPU limit is one second above the soft one, so that SIGXCPU shows which limit was reached.
    """
    processes = others + limits.processes
    return {
        "RLIMIT_CPU": (limits.cpu_seconds, limits.cpu_seconds + 1),
        "RLIMIT_AS": (limits.memory_bytes, limits.memory_bytes),
        "RLIMIT_FSIZE": (limits.file_bytes, limits.file_bytes),
        "RLIMIT_NPROC": (processes, processes),
        "RLIMIT_NOFILE": (limits.open_files, limits.open_files),
        "RLIMIT_CORE": (0, 0),
    }
