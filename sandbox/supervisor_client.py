"""The worker's connection to the supervisor of one run."""

import contextlib
import json
import logging
import os
import signal
import socket
import time
from typing import Any

from sandbox.launcher_client import launcher

logger = logging.getLogger(__name__)

MESSAGE_BYTES = 65536
END_SECONDS = 15.0
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
        """Let the launcher start a run; return the first message about its simulator, like `receive`.

        If the launcher dies before it has forked a supervisor, nothing has run, so the request is repeated with a
        new launcher. A launcher that hangs is replaced. Raises LauncherFailed.
        """
        deadline = time.monotonic() + timeout
        for _ in range(2):
            self._request(specification, [stdout, stderr])
            message = self._receive_start(deadline)
            if message is None and not self.pid:
                launcher.replace(self.launcher_pid)
            if message != {} or self.pid:
                break
        return message

    def _request(self, specification: dict[str, Any], output: list[int]) -> None:
        """Send a request to the launcher. Raises LauncherFailed."""
        if self.socket is not None:
            self.socket.close()
        self.is_over = False
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.launcher_pid = launcher.launch(specification, [theirs.fileno(), *output])

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
        try:
            message, descriptors = self._receive_bytes(self.socket)
        except (TimeoutError, BlockingIOError):
            return None
        self.received += descriptors
        decoded: dict[str, Any] = json.loads(message) if message else {}
        self.is_over = not decoded or "ended" in decoded
        return decoded

    def _receive_bytes(self, connection: socket.socket) -> tuple[bytes, list[int]]:
        """Return the next message, empty at EOF, and its descriptors. Raises TimeoutError or BlockingIOError."""
        for _ in range(2):
            # If the other end was closed with an unread order, the kernel reports that before the last messages.
            with contextlib.suppress(ConnectionResetError):
                return socket.recv_fds(connection, MESSAGE_BYTES, MAX_DESCRIPTORS)[:2]
        return b"", []

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
            if not self._ends():
                self._give_up()
        self.socket.close()
        self.socket = None
        for descriptor in (*self.received, *([] if self.process is None else [self.process])):
            os.close(descriptor)
        self.received, self.process = [], None

    def _give_up(self) -> None:
        """Replace a launcher that never forked the supervisor; otherwise, only log that the run does not end."""
        if self.pid:
            logger.error("processes of a run below launcher %s do not end", self.launcher_pid)
        else:
            launcher.replace(self.launcher_pid)

    def _ends(self) -> bool:
        """Return whether the run is over within `END_SECONDS`."""
        deadline = time.monotonic() + END_SECONDS
        while not self.is_over and self.receive(max(0.0, deadline - time.monotonic())) is not None:
            pass
        return self.is_over
