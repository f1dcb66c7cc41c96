"""The launcher: a small process of each caller that starts programs without starting a Python interpreter for each.

It runs as a script, and its standard input is a socket to the caller. A request consists of a specification by
`sandbox.confinement` and three descriptors. The launcher passes each request to an idle supervisor
(`sandbox.supervisor`), or forks one if none is idle. It has one thread and holds no locks, so forking it is
safe. When the caller dies or closes the socket, the launcher ends all supervisors and exits.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import NoReturn

# Python does not find the project by itself, because this script runs in isolated mode (`-I`).
sys.path.append(str(Path(__file__).parents[1]))

from sandbox import children, supervisor

# The run's socket to the caller, its standard output and its standard error.
DESCRIPTORS = supervisor.DESCRIPTORS
REQUEST_BYTES = supervisor.REQUEST_BYTES
END_SECONDS = 10.0


class SupervisorProcess:
    """A supervisor. `run` is a copy of its run's socket to the caller, or None while it is idle."""

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid = pid
        self.control = control
        self.run: int | None = None
        self.is_connected = True

    @property
    def is_idle(self) -> bool:
        """Return whether it waits for a request."""
        return self.is_connected and self.run is None

    def start(self, request: bytes, descriptors: list[int]) -> None:
        """Pass a request on. Raises OSError, and then nothing has been passed on."""
        run = os.dup(descriptors[0])
        try:
            socket.send_fds(self.control, [request], descriptors)
        except OSError:
            os.close(run)
            raise
        self.run = run

    def receive(self) -> None:
        """Close the run's socket if the supervisor is idle again. Its connection ends when it dies."""
        with contextlib.suppress(BlockingIOError):
            try:
                self.is_connected = bool(self.control.recv(16, socket.MSG_DONTWAIT))
            except ConnectionResetError:
                self.is_connected = False
            if self.is_connected and self.run is not None:
                os.close(self.run)
                self.run = None


class EndedRun:
    """A run whose supervisor has died, its socket to the caller, and its processes that may still be alive."""

    def __init__(self, socket: int) -> None:
        self.socket = socket
        self.processes: set[int] = set()


class Launcher:
    """Passes each request to an idle supervisor or a new one, and reaps supervisors.

    The launcher keeps a copy of each run's socket to the caller, and closes it when no process of the run is alive.
    The caller therefore reads EOF on its socket only after the whole run has ended, even if the supervisor is
    killed.
    """

    def __init__(self, caller: socket.socket) -> None:
        self.caller = caller
        self.supervisors: dict[int, SupervisorProcess] = {}
        self.ended_runs: list[EndedRun] = []
        # Processes of killed supervisors that did not end at once.
        self.orphans: set[int] = set()
        self.pause = children.FIRST_PAUSE_SECONDS
        self.wakeup, self.notify = children.watch_children()

    def serve(self) -> None:
        """Handle requests until the caller closes its socket or dies; then end all supervisors."""
        while True:
            controls = [each.control for each in self.supervisors.values() if each.is_connected]
            timeout = self.pause if self.ended_runs else None
            readable, _, _ = select.select([self.caller, self.wakeup, *controls], [], [], timeout)
            if self.wakeup in readable:
                self.wakeup.recv(4096)
                self.reap()
            elif self.ended_runs:
                self.reap()
            # From all of them, because one may have become idle just before the caller sent its next request.
            for each in self.supervisors.values():
                if each.is_connected:
                    each.receive()
            if self.caller in readable and not self.accept():
                return self.end()

    def end(self) -> None:
        """End all supervisors; kill those that hang."""
        for each in self.supervisors.values():
            each.control.close()
        deadline = time.monotonic() + END_SECONDS
        while self.supervisors or self.ended_runs:
            time.sleep(self.pause)
            if time.monotonic() > deadline:
                for pid in self.supervisors:
                    children.send_signal(pid, signal.SIGKILL)
            self.reap()

    def accept(self) -> bool:
        """Start the next request. Return False if the caller has died."""
        try:
            request, descriptors, _, _ = socket.recv_fds(self.caller, REQUEST_BYTES, DESCRIPTORS)
        except ConnectionError:
            return False
        for descriptor in descriptors:
            # Bubblewrap must not inherit them.
            os.set_inheritable(descriptor, False)  # noqa: FBT003 - its only form
        if len(descriptors) == DESCRIPTORS:
            self.start(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        return bool(request)

    def start(self, request: bytes, descriptors: list[int]) -> None:
        """Pass a request to a supervisor; if that fails, report it to the caller."""
        try:
            self.choose_supervisor(request, descriptors)
        except OSError as error:
            failure = {"failed": f"the launcher cannot start a supervisor: {error.strerror}"}
            with contextlib.suppress(OSError):
                os.write(descriptors[0], json.dumps(failure).encode())

    def choose_supervisor(self, request: bytes, descriptors: list[int]) -> None:
        """Pass a request to an idle supervisor, or to a new one. Raises OSError."""
        for each in [each for each in self.supervisors.values() if each.is_idle]:
            try:
                return each.start(request, descriptors)
            except (BrokenPipeError, ConnectionResetError):
                # It has been killed.
                each.is_connected = False
        return self.fork_supervisor().start(request, descriptors)

    def fork_supervisor(self) -> SupervisorProcess:
        """Fork a supervisor. Raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            pid = os.fork()
            if pid == 0:
                self.become_supervisor(theirs)
        self.supervisors[pid] = SupervisorProcess(pid, ours)
        return self.supervisors[pid]

    def become_supervisor(self, control: socket.socket) -> NoReturn:
        """Supervise runs in this new process, without any descriptor of the launcher or of other runs."""
        try:
            signal.set_wakeup_fd(-1)
            children.close_descriptors(control.fileno())
            supervisor.serve(control)
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)

    def reap(self) -> None:
        """Reap supervisors, kill the orphans of killed supervisors, and close the sockets of ended runs."""
        has_ended = False
        orphans: set[int] | None = None
        # The last listing contains the orphans of reaped supervisors only.
        while (reaped := children.reap()) or orphans is None:
            has_ended |= bool(reaped)
            self.orphans -= {each.pid for each in reaped}
            for each in reaped:
                self.forget(each.pid)
            orphans = set(children.children(os.getpid())) - set(self.supervisors) if self.ended_runs else set()
        self.pause = children.next_pause(self.pause, has_ended=has_ended)
        if self.ended_runs:
            self.kill_orphans(orphans)

    def forget(self, pid: int) -> None:
        """Remove a supervisor that has ended; its run has ended too."""
        ended = self.supervisors.pop(pid, None)
        if ended is not None:
            ended.control.close()
            if ended.run is not None:
                self.ended_runs.append(EndedRun(ended.run))

    def kill_orphans(self, orphans: set[int]) -> None:
        """Kill orphans, and close the sockets of the ended runs that have none.

        A new orphan can belong to any ended run. An older one does not belong to a run that has ended since, so an
        orphan that cannot be killed does not delay the end of other runs.
        """
        children.kill(orphans)
        for run in self.ended_runs:
            run.processes = (run.processes | (orphans - self.orphans)) & orphans
            if not run.processes:
                os.close(run.socket)
        self.ended_runs = [run for run in self.ended_runs if run.processes]
        self.orphans = orphans


def main() -> None:
    """Handle the requests of the caller at the other end of standard input."""
    caller = socket.socket(fileno=os.dup(0))
    os.dup2(1, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    children.adopt_orphans()
    # The garbage collector then writes to no existing object, so forked processes copy fewer memory pages.
    gc.freeze()
    Launcher(caller).serve()


if __name__ == "__main__":
    main()
