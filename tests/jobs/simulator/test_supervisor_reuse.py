"""A supervisor runs simulators one after the other, and nothing of a run remains for the next one."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from jobs.simulator.process import Ended
from tests.jobs.simulator.bench import PROJECT, Bench, eventually, sockets_and_pipes_of


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
from jobs.simulator import supervisor

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

supervisor.Supervisor = Run
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
