"""One simulator process: its start, its end and its environment, with and without bubblewrap."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sandbox.private_directory import PrivateDirectory
from sandbox.process import ConfinedProcess, NotStarted
from tests.sandbox.bench import (
    LIMITS,
    PROJECT,
    Bench,
    alive,
    eventually,
    has_landlock,
    may_leave_network,
    needs_root,
)


@pytest.mark.parametrize("status", [0, 1, 11, 50])
def test_the_exit_status_is_reported(bench: Bench, status: int) -> None:
    result = bench.run("status", status)
    assert (result.exit_status, result.signal, result.stopped_for) == (status, None, None)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM])
def test_the_signal_of_a_crash_is_reported(bench: Bench, number: int) -> None:
    result = bench.run("die", number)
    assert (result.exit_status, result.signal, result.stopped_for) == (None, number, None)


def test_active_layers_are_reported(bench: Bench) -> None:
    layers = bench.run("status", 0).layers
    expected = {"rlimits", "seccomp", "own_uid" if os.geteuid() == 0 else "user_namespace"}
    expected |= {"bubblewrap"} if bench.sandbox.bubblewrap else set()
    expected |= {"network_namespace"} if may_leave_network() else set()
    expected |= {"landlock"} if has_landlock else set()
    assert set(layers) == expected
    assert len(layers) == len(expected)


def spins(bench: Bench, process: ConfinedProcess) -> bool:
    """Wait until the simulator has used CPU time, which a busy machine may not give it at once."""
    below = psutil.Process(process.supervisor.pid).children(recursive=True)
    simulator = next(each for each in below if str(bench.executable) in each.cmdline())
    return eventually(lambda: simulator.cpu_times().user > 0.3)


def test_time_and_memory_are_measured(bench: Bench) -> None:
    with bench.process("spin") as process:
        assert process.wait(1.5) is None
        assert spins(bench, process)
        result = process.stop("deadline") or bench.fail("still running")
    assert 1.5 <= result.wall_seconds < 30
    assert 0.2 < result.cpu_seconds <= result.wall_seconds + 0.5
    assert result.peak_memory_bytes > 5 << 20


def test_the_time_of_a_killed_simulator_is_measured(bench: Bench) -> None:
    with bench.process("spin") as process:
        assert spins(bench, process)
        process.kill("cancelled")
        result = process.wait(20) or bench.fail("still running")
    assert result.signal == signal.SIGKILL
    assert result.cpu_seconds > 0.2


def test_an_executable_that_cannot_be_started_is_an_error(bench: Bench) -> None:
    bench.executable.write_text("#!/nowhere/interpreter\n")
    with pytest.raises(NotStarted, match="No such file"), bench.process("status", 0):
        pass


def test_an_executable_outside_the_build_is_an_error(bench: Bench) -> None:
    bench.executable = bench.executable.rename(bench.top / "elsewhere")
    with pytest.raises(NotStarted, match="elsewhere"), bench.process("status", 0):
        pass


def test_the_simulator_can_read_its_input_file(bench: Bench) -> None:
    profile = bench.directory.cwd / "input.simc"
    profile.write_text("warrior=x")
    profile.chmod(0o600)
    bench.run("shows", "input.simc")
    assert bench.printed() == ["warrior=x"]


def test_an_interrupted_simulator_writes_its_report(bench: Bench) -> None:
    with bench.process("polite") as process:
        assert bench.prints("running")
        result = process.stop("deadline") or bench.fail("still running")
    assert (result.exit_status, result.stopped_for) == (0, "deadline")
    assert (bench.directory.cwd / "report.json").read_text() == "{}"


def test_an_interrupt_works_if_the_worker_ignores_it(bench: Bench) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        test_an_interrupted_simulator_writes_its_report(bench)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_simulator_that_ignores_signals_is_killed(bench: Bench) -> None:
    with bench.process("deaf") as process:
        assert bench.prints("running")
        os.kill(process.supervisor.pid, signal.SIGTERM)
        os.kill(process.supervisor.launcher_pid, signal.SIGTERM)
        result = process.stop("cancelled", grace_seconds=0.3) or bench.fail("still running")
    assert (result.signal, result.stopped_for) == (signal.SIGKILL, "cancelled")
    assert result.wall_seconds < 15


def test_leaving_the_block_kills_the_simulator(bench: Bench) -> None:
    with bench.process("deaf"):
        assert bench.prints("running")
        assert alive(bench.top)
    assert alive(bench.top) == []


def test_the_first_stop_reason_counts(bench: Bench) -> None:
    with bench.process("deaf") as process:
        process.interrupt("budget")
        process.kill("cancelled")
        result = process.wait(20) or bench.fail("still running")
    assert result.stopped_for == "budget"


def test_the_thread_that_started_a_simulator_can_end(bench: Bench) -> None:
    process = bench.process("polite")
    starter = threading.Thread(target=process.start)
    starter.start()
    starter.join()
    with contextlib.closing(process):
        assert process.wait(0.5) is None
        result = process.stop("deadline") or bench.fail("still running")
    assert result.exit_status == 0


def test_parallel_runs_do_not_affect_each_other(bench: Bench) -> None:
    with bench.process("deaf") as other:
        assert bench.prints("running")
        with PrivateDirectory.create(bench.top) as bench.directory:
            assert bench.run("daemon", "marker.txt").exit_status == 0
        assert other.wait(0) is None
        bench.directory = other.directory


def test_a_simulator_that_keeps_forking_is_killed(bench: Bench) -> None:
    with bench.process("hare") as process:
        assert bench.prints("running")
        process.kill("cancelled")
        assert process.wait(8)
    assert "escaped" not in bench.printed()


def test_a_daemon_does_not_outlive_its_simulator(bench: Bench) -> None:
    result = bench.run("daemon", "marker.txt")
    assert result.exit_status == 0
    assert "daemon" in bench.printed()
    assert alive(bench.top) == []
    assert not (bench.directory.cwd / "marker.txt").exists()


WORKER = """
import sys, time
from pathlib import Path
from sandbox.process import RunLimits, ConfinedProcess
from sandbox.private_directory import PrivateDirectory
from sandbox.confinement import Sandbox

top, bubblewrap, executable, behaviour, *rest = sys.argv[1:]
limits = RunLimits(wall_seconds=60, cpu_seconds=60, memory_bytes=1 << 30, file_bytes=1 << 20, disk_bytes=1 << 20,
                processes=30, open_files=64, log_bytes=1000, output_bytes=100000)
readable = [Path(executable).parent, Path(sys.prefix), Path(sys.base_prefix)]
with ConfinedProcess([executable, behaviour, *rest], directory=PrivateDirectory(Path(top)), limits=limits,
                      sandbox=Sandbox(Path(bubblewrap) if bubblewrap else None, "auto"), readable=readable,
                      on_line=lambda stream, text: print(text, flush=True)):
    time.sleep(60)
"""


@pytest.mark.parametrize("behaviour", ["deaf", "lasting_daemon", "bomb"])
def test_all_die_with_the_worker(bench: Bench, behaviour: str) -> None:
    arguments = [bench.directory.root, bench.sandbox.bubblewrap or "", bench.executable, behaviour]
    command = [sys.executable, "-c", WORKER, *map(str, arguments)]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE) as worker:
        assert worker.stdout
        assert worker.stdout.readline() in {b"running\n", b"daemon\n", b"bombed\n"}
        started = psutil.Process(worker.pid).children(recursive=True)
        assert len(started) >= 3
        worker.kill()
    assert eventually(lambda: alive(bench.build) == [])
    assert eventually(lambda: not any(process.is_running() for process in started))


def test_environment_is_clean(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DJANGO_SECRET_KEY", "secret")
    bench.run("environment")
    names = [line.split("=")[0] for line in bench.printed() if "=" in line]
    assert set(names) - {"LOCPATH"} == {"HOME", "LANG", "LC_ALL", "PATH", "TZ", "XDG_CACHE_HOME"}
    assert f"cwd {bench.directory.cwd}" in bench.printed()
    assert f"limits 20 {LIMITS.memory_bytes} {LIMITS.file_bytes} 0" in bench.printed()


@pytest.fixture
def extra_group() -> Iterator[None]:
    before = os.getgroups()
    os.setgroups([*before, 4])
    yield
    os.setgroups(before)


@needs_root
@pytest.mark.usefixtures("extra_group")
def test_a_root_worker_runs_simulators_as_another_user(bench: Bench) -> None:
    bench.run("environment")
    uid = next(int(line.split()[1]) for line in bench.printed() if line.startswith("uid"))
    assert 61184 <= uid <= 65519
    assert "groups" in [line.strip() for line in bench.printed()]
    assert bench.directory.cwd.stat().st_uid == 0


def test_a_build_that_everyone_can_read_runs(open_directory: Path, bench: Bench) -> None:
    bench.build = open_directory / "builds" / "one"
    bench.build.mkdir(parents=True)
    bench.executable = bench.build / "simulator"
    bench.executable.write_text("#!/bin/sh\necho ran > report; cat report")
    bench.executable.chmod(0o755)
    with PrivateDirectory.create(open_directory) as directory:
        ran = bench.process()
        ran.directory, ran.readable = directory, [bench.build]
        with ran:
            result = ran.wait(20) or bench.fail("still running")
    assert (result.exit_status, bench.printed()[0]) == (0, "ran")
