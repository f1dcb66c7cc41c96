"""The launcher: a small process of each worker that starts simulators without starting a new Python interpreter.

It runs as a script, and its standard input is a socket to the worker. A request consists of a specification by
`jobs.simulator.sandbox` and three descriptors. For each request, the launcher forks a supervisor
(`jobs.simulator.supervisor`), which it reaps later. It has one thread and holds no locks, so forking it is safe.
When the worker dies or closes the socket, the launcher ends all supervisors and exits.
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
sys.path.append(str(Path(__file__).parents[2]))

from jobs.simulator import children
from jobs.simulator.supervisor import Supervisor

# The run's socket to the worker, its standard output and its standard error.
DESCRIPTORS = 3
REQUEST_BYTES = 1 << 18
ORPHANS_SECONDS = 0.002
END_SECONDS = 10.0


class Launcher:
    """Forks a supervisor for each request and reaps it.

    The launcher keeps a copy of each supervisor's socket to the worker, and closes it when no process of the run is
    alive. The worker therefore reads EOF on its socket only after the whole run has ended, even if the supervisor
    is killed.
    """

    def __init__(self, worker: socket.socket) -> None:
        self.worker = worker
        # Only the launcher has the write end of this pipe, so supervisors read EOF when the launcher dies.
        self.lifeline, self.life = os.pipe()
        self.runs: dict[int, int] = {}
        self.ended_runs: list[int] = []
        self.wakeup, self.notify = children.watch_children()

    def serve(self) -> None:
        """Handle requests until the worker closes its socket or dies; then end all supervisors."""
        while True:
            readable, _, _ = select.select(
                [self.worker, self.wakeup], [], [], ORPHANS_SECONDS if self.ended_runs else None
            )
            if self.wakeup in readable:
                self.wakeup.recv(4096)
            self.reap()
            if self.worker in readable and not self.accept():
                return self.end()

    def end(self) -> None:
        """End all supervisors; kill those that hang."""
        os.close(self.life)
        deadline = time.monotonic() + END_SECONDS
        while self.runs or self.ended_runs:
            time.sleep(ORPHANS_SECONDS)
            if time.monotonic() > deadline:
                for pid in self.runs:
                    children.send_signal(pid, signal.SIGKILL)
            self.reap()

    def accept(self) -> bool:
        """Fork a supervisor for the next request. Return False if the worker has died."""
        try:
            request, descriptors, _, _ = socket.recv_fds(self.worker, REQUEST_BYTES, DESCRIPTORS)
        except ConnectionError:
            return False
        for descriptor in descriptors:
            # Bubblewrap must not inherit them.
            os.set_inheritable(descriptor, False)  # noqa: FBT003 - its only form
        if len(descriptors) == DESCRIPTORS:
            self.fork_supervisor(request, *descriptors)
            del descriptors[0]
        for descriptor in descriptors:
            os.close(descriptor)
        return bool(request)

    def fork_supervisor(self, request: bytes, run: int, stdout: int, stderr: int) -> None:
        """Fork a supervisor; if that fails, report it to the worker."""
        try:
            pid = os.fork()
        except OSError as error:
            with contextlib.suppress(OSError):
                os.write(run, json.dumps({"failed": f"the launcher cannot fork: {error.strerror}"}).encode())
            os.close(run)
            return
        if pid == 0:
            self.become_supervisor(request, run, stdout, stderr)
        self.runs[pid] = run

    def become_supervisor(self, request: bytes, run: int, stdout: int, stderr: int) -> NoReturn:
        """Run a supervisor in this new process, without any descriptor of the launcher or of other runs."""
        try:
            signal.set_wakeup_fd(-1)
            children.close_descriptors(self.lifeline, run, stdout, stderr)
            Supervisor(json.loads(request), socket.socket(fileno=run), launcher=self.lifeline).run(stdout, stderr)
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)

    def reap(self) -> None:
        """Reap supervisors, kill the orphans of killed supervisors, and close the sockets of ended runs."""
        self.ended_runs += [self.runs.pop(pid) for pid in children.reap() if pid in self.runs]
        if not self.ended_runs:
            return
        orphans = [pid for pid in children.children(os.getpid()) if pid not in self.runs]
        for pid in (*orphans, *(children.descendants(*orphans) if orphans else ())):
            children.send_signal(pid, signal.SIGKILL)
        if not orphans:
            for run in self.ended_runs:
                os.close(run)
            self.ended_runs = []


def main() -> None:
    """Handle the requests of the worker at the other end of standard input."""
    worker = socket.socket(fileno=os.dup(0))
    os.dup2(1, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    children.adopt_orphans()
    # The garbage collector then writes to no existing object, so forked processes copy fewer memory pages.
    gc.freeze()
    Launcher(worker).serve()


if __name__ == "__main__":
    main()
