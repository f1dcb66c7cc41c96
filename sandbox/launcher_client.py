"""The worker's client of its launcher: it starts the launcher, sends requests, and replaces a dead launcher."""

import atexit
import contextlib
import json
import logging
import os
import socket
import subprocess
import threading
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
