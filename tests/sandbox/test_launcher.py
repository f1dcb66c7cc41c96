"""The launcher and its supervisors when they are killed, hang or are inherited by a forked process."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from sandbox import client
from sandbox import process as processes
from sandbox.client import LauncherClient, LauncherFailed, launcher
from sandbox.private_directory import PrivateDirectory
from sandbox.process import ConfinedProcess, NotStarted
from tests.sandbox.bench import PROJECT, Bench, alive, eventually, needs_root, sockets_and_pipes_of


def below(pid: int) -> list[psutil.Process]:
    return list(psutil.Process(pid).children(recursive=True))


def all_end(started: list[psutil.Process]) -> bool:
    return eventually(lambda: not any(each.is_running() for each in started))


def test_one_launcher_starts_all_simulators(bench: Bench) -> None:
    bench.run("status", 0)
    before = launcher.process
    bench.run("status", 0)
    assert launcher.process is before


def test_a_killed_launcher_is_replaced(bench: Bench) -> None:
    bench.run("status", 0)
    assert launcher.process
    before = launcher.process.pid
    os.kill(before, signal.SIGKILL)
    assert bench.run("status", 0).exit_status == 0
    assert launcher.process.pid != before


def test_a_launcher_that_dies_with_a_request_is_replaced(bench: Bench) -> None:
    bench.run("status", 0)
    assert launcher.process
    before = launcher.process.pid
    os.kill(before, signal.SIGSTOP)
    killer = threading.Timer(0.3, os.kill, (before, signal.SIGKILL))
    killer.start()
    assert bench.run("status", 0).exit_status == 0
    killer.join()
    assert launcher.process.pid != before


@pytest.mark.parametrize("behaviour", ["deaf", "lasting_daemon"])
@pytest.mark.parametrize("victim", ["launcher", "supervisor"])
def test_all_die_with_the_launcher(bench: Bench, behaviour: str, victim: str) -> None:
    with bench.process(behaviour) as process:
        assert bench.prints("daemon" if behaviour == "lasting_daemon" else "running")
        killed = process.supervisor.launcher_pid if victim == "launcher" else process.supervisor.pid
        started = below(killed)
        assert started
        os.kill(killed, signal.SIGKILL)
        result = process.wait(20) or bench.fail("still running")
        # The worker learns of the end only when no process of the run is left.
        assert alive(bench.build) == []
    assert all_end(started)
    assert result.exit_status is None
    assert result.is_lost
    assert bench.run("status", 0).exit_status == 0


def test_a_launcher_killed_at_any_moment_leaves_nothing(bench: Bench) -> None:
    outcomes = []
    for number in range(12):
        assert bench.run("status", 0).exit_status == 0
        assert launcher.process
        killer = threading.Timer(number * 0.004, os.kill, (launcher.process.pid, signal.SIGKILL))
        killer.start()
        with contextlib.suppress(NotStarted):
            outcomes.append(bench.run("status", 0).exit_status)
        killer.join()
        assert alive(bench.build) == []
    assert set(outcomes) <= {0, None}


def test_a_hanging_launcher_is_replaced(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.run("status", 0)
    assert launcher.process
    before = launcher.process.pid
    monkeypatch.setattr(processes, "START_SECONDS", 0.5)
    # Otherwise, the end of the run replaces the launcher much later.
    monkeypatch.setattr(client, "END_SECONDS", 1000.0)
    os.kill(before, signal.SIGSTOP)
    with pytest.raises(NotStarted, match="did not start within"), bench.process("status", 0):
        pass
    monkeypatch.undo()
    assert bench.run("status", 0).exit_status == 0
    assert not psutil.pid_exists(before)


def test_a_hanging_supervisor_is_killed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "END_SECONDS", 0.5)
    with bench.process("deaf") as process:
        assert bench.prints("running")
        started = below(process.supervisor.pid)
        os.kill(process.supervisor.pid, signal.SIGSTOP)
    assert all_end(started)
    assert launcher.process
    assert launcher.process.pid == process.supervisor.launcher_pid


def fill(client: LauncherClient) -> None:
    """Send more requests than a launcher that hangs can receive."""
    for _ in range(1000):
        client.launch({"filler": "x" * 10_000}, [])


def test_a_launcher_that_takes_no_request_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    client = LauncherClient()
    monkeypatch.setattr("sandbox.client.SEND_SECONDS", 0.2)
    pid = client.launch({}, [])
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(LauncherFailed, match="did not accept the request"):
        fill(client)
    assert client.process is None
    assert not psutil.pid_exists(pid)


def test_a_launcher_that_cannot_start_is_an_error(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher.stop()
    monkeypatch.setattr("sandbox.confinement.INTERPRETER", Path("/nowhere/python"))
    with pytest.raises(NotStarted, match="No such file"), bench.process("status", 0):
        pass
    monkeypatch.undo()
    assert bench.run("status", 0).exit_status == 0


def test_a_request_that_is_too_long_is_an_error(bench: Bench) -> None:
    with pytest.raises(NotStarted, match="too long"), bench.process("status", "0" * 1_000_000):
        pass
    assert bench.run("status", 0).exit_status == 0


def test_a_malformed_request_does_not_stop_the_launcher(bench: Bench) -> None:
    bench.run("status", 0)
    assert launcher.process
    before = launcher.process.pid
    for descriptors in ([], [1], [1, 1, 1]):
        launcher.launch({"filler": "x"}, descriptors)
    assert bench.run("status", 0).exit_status == 0
    assert launcher.process.pid == before


def descriptors_of_run(process: ConfinedProcess) -> set[str]:
    """Return the sockets and pipes of a run's processes, the pause process included."""
    pids = [process.supervisor.pid, *(each.pid for each in below(process.supervisor.pid))]
    return set().union(*map(sockets_and_pipes_of, pids))


def test_runs_share_no_descriptors(bench: Bench) -> None:
    """A worker notices the end of a run only if no other process has its sockets and pipes."""
    with bench.process("deaf") as first:
        assert bench.prints("running")
        with PrivateDirectory.create(bench.top) as bench.directory, bench.process("deaf") as second:
            assert eventually(lambda: bench.printed().count("running") == 2)
            assert descriptors_of_run(first).isdisjoint(descriptors_of_run(second))
            os.kill(first.supervisor.pid, signal.SIGKILL)
            assert first.wait(20)
            assert second.wait(0) is None
        bench.directory = first.directory


def test_another_run_does_not_keep_the_output_open(bench: Bench) -> None:
    with bench.process("deaf") as first:
        assert bench.prints("running")
        with PrivateDirectory.create(bench.top) as bench.directory, bench.process("lasting_daemon"):
            assert bench.prints("daemon")
            drains = list(first.drains)
            first.kill("cancelled")
            assert first.wait(20)
            assert not any(drain.is_alive() for drain in drains)
        bench.directory = first.directory


INHERITED = """
import os, sys, threading
from sandbox.client import launcher
pid = launcher.launch({}, [])
launcher.lock.acquire()
child = os.fork()
if child == 0:
    assert launcher.launch({}, []) != pid
    launcher.stop()
    os._exit(0)
launcher.lock.release()
assert os.waitpid(child, 0)[1] == 0
assert launcher.launch({}, []) == pid
"""


def test_a_forked_worker_gets_its_own_launcher() -> None:
    """The parent's lock can be held at the fork, and its launcher must not be shared."""
    subprocess.run([sys.executable, "-W", "error", "-c", INHERITED], cwd=PROJECT, check=True, timeout=30)


FORKING_WORKER = """
import os, sys, time
from pathlib import Path
from sandbox.process import RunLimits, ConfinedProcess
from sandbox.private_directory import PrivateDirectory
from sandbox.confinement import Sandbox

top, bubblewrap = sys.argv[1:]
limits = RunLimits(wall_seconds=60, cpu_seconds=60, memory_bytes=1 << 30, file_bytes=1 << 20, disk_bytes=1 << 20,
                processes=30, open_files=64, log_bytes=1000, output_bytes=100000)
with ConfinedProcess(["/bin/sleep", "60"], directory=PrivateDirectory(Path(top)), limits=limits,
                      sandbox=Sandbox(Path(bubblewrap) if bubblewrap else None, "auto"), readable=[],
                      on_line=print) as process:
    if os.fork():
        print(process.supervisor.pid, flush=True)
    time.sleep(60)
"""


def test_a_forked_process_does_not_keep_runs_alive(bench: Bench) -> None:
    arguments = [str(bench.directory.root), str(bench.sandbox.bubblewrap or "")]
    command = [sys.executable, "-c", FORKING_WORKER, *arguments]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE) as worker:
        assert worker.stdout
        supervisor = psutil.Process(int(worker.stdout.readline()))
        started = [supervisor, *supervisor.children(recursive=True)]
        fork = next(each for each in below(worker.pid) if "-c" in each.cmdline())
        worker.kill()
        assert all_end(started)
        assert fork.is_running()
        fork.kill()
        assert all_end([fork])


@pytest.mark.slow
def test_the_launcher_kills_a_hanging_supervisor_at_its_end(bench: Bench) -> None:
    arguments = [str(bench.directory.root), str(bench.sandbox.bubblewrap or "")]
    command = [sys.executable, "-c", FORKING_WORKER, *arguments]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE) as worker:
        assert worker.stdout
        supervisor = psutil.Process(int(worker.stdout.readline()))
        started = below(worker.pid)
        supervisor.suspend()
        for each in started:
            with contextlib.suppress(psutil.NoSuchProcess):
                if "-c" in each.cmdline():
                    each.kill()
        worker.kill()
        assert all_end(started)


def test_the_launcher_ends_with_its_worker() -> None:
    code = "from sandbox.client import launcher; print(launcher.launch({}, []))"
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert not psutil.pid_exists(int(done.stdout))


@needs_root
def test_a_start_creates_few_processes_and_no_interpreter(bench: Bench) -> None:
    """Only the simulator. Bubblewrap adds its two processes and the pause process."""
    command = [sys.executable, "-m", "tests.sandbox.process_count", str(bench.sandbox.bubblewrap or "")]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) == (4 if bench.sandbox.bubblewrap else 1)
