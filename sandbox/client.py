"""The caller's ends of its launcher and of the supervisors of its runs."""

import atexit
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Any

from sandbox.confinement import FOLDER, script_command

LAUNCHER = FOLDER / "launcher.py"
SEND_SECONDS = 10.0
END_SECONDS = 15.0
KILL_SECONDS = 5.0

logger = logging.getLogger(__name__)


class LauncherFailed(Exception):
    """The launcher could not be started or does not accept requests; the message says why."""


class LauncherClient:
    """The only launcher of this process. The first request starts it with exec, so starting it is thread-safe."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.forget()

    def forget(self) -> None:
        """Close the socket to the launcher. A forked process must not use or keep its parent's launcher."""
        self.lock = threading.Lock()
        if self.process is not None:
            self.socket.close()
            # Otherwise, the destructor of `Popen` warns that the process is still running.
            self.process.returncode = 0
        self.process = None

    def launch(self, specification: dict[str, Any], descriptors: Sequence[int]) -> int:
        """Request a run with its socket, standard output and standard error; return the launcher's process id.

        Raises LauncherFailed.
        """
        request = json.dumps(specification).encode()
        with self.lock:
            try:
                return self._send(request, descriptors)
            except TimeoutError as error:
                self._replace()
                raise LauncherFailed(
                    f"the launcher did not accept the request within {SEND_SECONDS:.0f} s"
                ) from error
            except OSError as error:
                raise LauncherFailed(f"the launcher cannot be used: {error.strerror}") from error

    def replace(self, pid: int) -> None:
        """Kill a launcher that hangs, unless it has been replaced already."""
        with self.lock:
            if self.process is not None and self.process.pid == pid:
                self._replace()

    def stop(self) -> None:
        """End the launcher and all its runs."""
        with self.lock:
            if self.process is not None:
                self.socket.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(END_SECONDS)
                self._replace()

    def _send(self, request: bytes, descriptors: Sequence[int]) -> int:
        """Send a request; if the launcher has died, start a new one. Raises OSError."""
        process = self._living()
        try:
            socket.send_fds(self.socket, [request], descriptors)
        except (BrokenPipeError, ConnectionResetError):
            # The launcher was dying. Wait until it is dead, so that it is not taken for the new one.
            self._replace()
            process = self._living()
            socket.send_fds(self.socket, [request], descriptors)
        return process.pid

    def _living(self) -> subprocess.Popen[bytes]:
        """Return the launcher's process; start one if there is none or it has died. Raises OSError."""
        if self.process is not None and self.process.poll() is not None:
            self._replace()
        if self.process is None:
            self.process = self._start()
        return self.process

    def _start(self) -> subprocess.Popen[bytes]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(SEND_SECONDS)
        try:
            with theirs:
                process = subprocess.Popen(
                    script_command(LAUNCHER),
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    cwd="/",
                    env={},
                    start_new_session=True,
                )
        except OSError:
            ours.close()
            raise
        self.socket = ours
        return process

    def _replace(self) -> None:
        """Kill the launcher and wait at most `KILL_SECONDS`; the next request starts another one."""
        if self.process is not None:
            self.process.kill()
            try:
                self.process.wait(KILL_SECONDS)
            except subprocess.TimeoutExpired:
                # It is in an uninterruptible system call. `subprocess` reaps it later.
                logger.error("launcher %s does not end", self.process.pid)
            self.socket.close()
            self.process = None


launcher = LauncherClient()
# In a forked process, another thread's lock would never be released.
os.register_at_fork(after_in_child=launcher.forget)
atexit.register(launcher.stop)


MESSAGE_BYTES = 65536
# One descriptor is expected. With room for a second one, it can be detected and rejected.
MAX_DESCRIPTORS = 2


class SupervisorClient:
    """A socket to a supervisor. When this end is closed, the supervisor ends its run.

    The other end is closed only when no process of the run is alive, even if the supervisor was killed.
    """

    def __init__(self) -> None:
        self.socket: socket.socket | None = None
        # The launcher that was asked to start the run, and the supervisor that it forked.
        self.launcher_pid = self.pid = 0
        # A descriptor of the supervisor's process, whose id could be reused.
        self.process: int | None = None
        self.is_over = False
        # Descriptors that the supervisor has sent.
        self.received: list[int] = []

    def start(
        self, specification: dict[str, Any], *, stdout: int, stderr: int, timeout: float
    ) -> dict[str, Any] | None:
        """Let the launcher start a run; return the first message about its program, like `receive`.

        If the launcher dies before it has forked a supervisor, nothing has run, so the request is repeated with a
        new launcher. A launcher that hangs is replaced. Raises LauncherFailed.
        """
        deadline = time.monotonic() + timeout
        for _ in range(2):
            if self.socket is not None:
                self.socket.close()
            self.is_over = False
            self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self.launcher_pid = launcher.launch(specification, [theirs.fileno(), stdout, stderr])
            message = self._receive_start(deadline)
            if message is None and not self.pid:
                launcher.replace(self.launcher_pid)
            if message != {} or self.pid:
                break
        return message

    def _receive_start(self, deadline: float) -> dict[str, Any] | None:
        while message := self.receive(max(0.0, deadline - time.monotonic())):
            if "supervisor" not in message:
                break
            # The kernel drops the descriptor if this process has no room for it.
            self.pid, self.process = message["supervisor"], self.received.pop() if self.received else None
        return message

    def receive(self, timeout: float | None) -> dict[str, Any] | None:
        """Return the next message, empty if no process of the run is alive, or None after the timeout."""
        if self.socket is None or self.is_over:
            return {}
        self.socket.settimeout(timeout)
        message = b""
        for _ in range(2):
            try:
                message, descriptors, _, _ = socket.recv_fds(self.socket, MESSAGE_BYTES, MAX_DESCRIPTORS)
            except (TimeoutError, BlockingIOError):
                return None
            except ConnectionResetError:
                # The other end was closed with an unread order. Its last messages can still be received.
                continue
            self.received += descriptors
            break
        decoded: dict[str, Any] = json.loads(message) if message else {}
        self.is_over = not decoded or "ended" in decoded
        return decoded

    def order(self, order: bytes) -> None:
        """Send `interrupt` or `kill`; any thread may do so, at any time."""
        connection = self.socket
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.send(order)

    def close(self) -> None:
        """Let the supervisor end the run, and wait. If it hangs, kill it.

        If the launcher forked no supervisor, the launcher itself hangs and is replaced. Otherwise, the launcher
        works and is kept for other runs; the rest of this run is in an uninterruptible system call.
        """
        if self.socket is None:
            return
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
        if not self._ends():
            if self.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self.process, signal.SIGKILL)
            if not self._ends() and not self.pid:
                launcher.replace(self.launcher_pid)
            elif not self.is_over:
                logger.error("processes of a run below launcher %s do not end", self.launcher_pid)
        self.socket.close()
        self.socket = None
        for descriptor in (*self.received, *([] if self.process is None else [self.process])):
            os.close(descriptor)
        self.received, self.process = [], None

    def _ends(self) -> bool:
        """Return whether the run is over within `END_SECONDS`."""
        deadline = time.monotonic() + END_SECONDS
        while not self.is_over and self.receive(max(0.0, deadline - time.monotonic())) is not None:
            pass
        return self.is_over
