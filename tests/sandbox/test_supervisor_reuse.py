"""A supervisor runs simulators one after the other, and nothing of a run remains for the next one."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sandbox import children, client, namespaces
from sandbox.launcher import Launcher, SupervisorProcess
from sandbox.process import Ended, NotStarted
from tests.sandbox.bench import PROJECT, Bench, eventually, sockets_and_pipes_of


def test_an_idle_supervisor_keeps_no_descriptors(bench: Bench) -> None:
    with bench.process("status", 0) as process:
        assert process.wait(60)
    # The one to the launcher, and two to learn of ended children.
    assert eventually(lambda: len(sockets_and_pipes_of(process.supervisor.pid)) == 3)


def test_a_supervisor_is_used_again(bench: Bench) -> None:
    with bench.process("status", 3) as first:
        assert first.wait(60)
    with bench.process("status", 0) as second:
        assert second.wait(60)
    assert second.supervisor.pid == first.supervisor.pid


def test_a_killed_idle_supervisor_is_replaced(bench: Bench) -> None:
    with bench.process("status", 0) as first:
        assert first.wait(60)
    os.kill(first.supervisor.pid, signal.SIGKILL)
    with bench.process("status", 0) as second:
        assert (second.wait(60) or bench.fail("still running")).exit_status == 0
    assert second.supervisor.pid != first.supervisor.pid


def test_use_is_counted_for_each_run(bench: Bench) -> None:
    bench.limit(cpu_seconds=1)
    assert bench.run("spin").cpu_seconds > 0.5
    bench.limit(cpu_seconds=20)
    large = killed_when_printing(bench, "holding 100", "fat", 100)
    small = bench.run("status", 0)
    assert small.cpu_seconds < 0.5
    assert small.peak_memory_bytes < large.peak_memory_bytes - (50 << 20)


def killed_when_printing(bench: Bench, line: str, *command: object) -> Ended:
    with bench.process(*command) as process:
        assert bench.prints(line)
        return process.stop("cancelled", grace_seconds=0.0) or bench.fail("still running")


def test_a_supervisor_counts_the_time_of_its_simulators(bench: Bench) -> None:
    with bench.process("status", 0) as process:
        assert process.wait(60)
    times = psutil.Process(process.supervisor.pid)
    before = times.cpu_times().children_user
    bench.limit(cpu_seconds=1)
    bench.run("spin")
    assert eventually(lambda: times.cpu_times().children_user > before + 0.5)


# A supervisor with two requests; it prints how often it was idle.
SERVING = """
import contextlib, os, socket, sys
from sandbox import supervisor

class Run:
    def __init__(self, specification, worker, **_):
        self.cgroup = "a group" if "cgroup" in specification else None
        self.leaves_descriptor = "descriptor" in specification

    def run(self, stdout, stderr):
        os.close(stdout)
        if not self.leaves_descriptor:
            os.close(stderr)

    def send(self, message):
        pass

supervisor.RunSupervisor = Run
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
for _ in range(2):
    socket.send_fds(ours, [sys.argv[1].encode()], [ours.fileno()] * 3)
ours.shutdown(socket.SHUT_WR)
supervisor.serve(theirs)
theirs.close()
# The kernel reports an unread request first.
with contextlib.suppress(ConnectionResetError):
    ours.recv(16, socket.MSG_PEEK)
print(len(list(iter(lambda: ours.recv(16), b""))))
"""


@pytest.mark.parametrize(("request_", "idle"), [("[]", 2), ('["cgroup"]', 0), ('["descriptor"]', 0)])
def test_a_supervisor_ends_after_a_run_that_leaves_a_trace(request_: str, idle: int) -> None:
    command = [sys.executable, "-c", SERVING, request_]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True, timeout=30)
    assert int(done.stdout) == idle


# The launcher dies before the supervisor has read its request.
ORPHANED = (
    SERVING[: SERVING.index("for _ in")]
    + """
Run.send = lambda self, message: print(message)
worker = socket.socketpair()
socket.send_fds(ours, [b"[]"], [worker[0].fileno()] * 3)
ours.close()
supervisor.serve(theirs)
"""
)


def test_a_result_is_sent_although_the_launcher_has_died() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ORPHANED], cwd=PROJECT, capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout == "{'ended': None}\n"


def test_a_pause_process_inherits_only_its_streams(bench: Bench) -> None:
    if bench.sandbox.bubblewrap is None:
        pytest.skip("no bubblewrap")
    with bench.process("deaf") as process:
        assert bench.prints("running")
        below = psutil.Process(process.supervisor.pid).children(recursive=True)
        pause = next(each for each in below if each.cmdline() == list(namespaces.PAUSE))
        assert {path.name for path in Path(f"/proc/{pause.pid}/fd").iterdir()} == {"0", "1", "2"}


@pytest.fixture
def request_() -> Iterator[tuple[socket.socket, list[int]]]:
    """Return the worker's end of a run's socket, and the descriptors of a request."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.settimeout(5)
        yield ours, [theirs.fileno()] * 3


@pytest.mark.parametrize("failing", ["dup", "send"])
def test_a_request_that_cannot_be_passed_on_fails_alone(
    failing: str, request_: tuple[socket.socket, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, descriptors = request_
    other, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # Signals of this process must not change.
    monkeypatch.setattr(children, "watch_children", socket.socketpair)
    launcher = Launcher(control)
    with other, control, launcher.wakeup, launcher.notify:
        idle = launcher.supervisors[1] = SupervisorProcess(1, other)
        before = len(list(Path("/proc/self/fd").iterdir()))

        def fail(*_: object) -> int:
            raise OSError(errno.EMFILE, "too many")

        with monkeypatch.context() as patched:
            if failing == "dup":
                patched.setattr(os, "dup", fail)
            else:
                patched.setattr(socket, "send_fds", fail)
            launcher.start(b"{}", descriptors)
        assert "too many" in json.loads(worker.recv(1000))["failed"]
        assert idle.is_idle
        assert len(list(Path("/proc/self/fd").iterdir())) == before


# A launcher on a kernel without pidfd_open
OLD_KERNEL = """
import errno, os, runpy
def refuse(*_):
    raise OSError(errno.ENOSYS, "Function not implemented")
os.pidfd_open = refuse
runpy.run_path({path!r}, run_name="__main__")
"""


def test_a_missing_pidfd_is_named(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "launcher.py"
    program.write_text(OLD_KERNEL.format(path=str(client.LAUNCHER)))
    client.launcher.stop()
    monkeypatch.setattr(client, "LAUNCHER", program)
    with pytest.raises(NotStarted, match="pidfd_open: Function not implemented"):
        bench.run("status", 0)
    client.launcher.stop()
