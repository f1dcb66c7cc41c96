"""Real simulators that misbehave, run with and without bubblewrap: each is contained and leaves nothing behind."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from jobs.simulator.private_directory import PrivateDirectory, UnsafeOutput, open_output
from jobs.simulator.process import SimulatorNotStarted, SimulatorProcess, resource_limits
from jobs.simulator.streams import Lines
from tests.jobs.simulator.bench import (
    LIMITS,
    PROJECT,
    Bench,
    alive,
    eventually,
    has_landlock,
    may_leave_network,
    needs_root,
)


def signal_launcher(process: SimulatorProcess, number: int) -> None:
    assert process.launcher
    process.launcher.send_signal(number)


# The end


@pytest.mark.parametrize("status", [0, 1, 11, 50])
def test_exit_status(bench: Bench, status: int) -> None:
    ended = bench.run("status", status)
    assert (ended.exit_status, ended.signal, ended.stopped_for) == (status, None, None)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM])
def test_death_by_a_signal(bench: Bench, number: int) -> None:
    ended = bench.run("die", number)
    assert (ended.exit_status, ended.signal, ended.stopped_for) == (None, number, None)


def test_layers_are_named(bench: Bench) -> None:
    layers = bench.run("status", 0).layers
    expected = {"rlimits", "seccomp", "own_uid" if os.geteuid() == 0 else "user_namespace"}
    expected |= {"bubblewrap"} if bench.sandbox.bubblewrap else set()
    expected |= {"network_namespace"} if may_leave_network() else set()
    expected |= {"landlock"} if has_landlock else set()
    assert set(layers) == expected
    assert len(layers) == len(expected)


def test_use_is_measured(bench: Bench) -> None:
    with bench.process("spin") as process:
        assert process.wait(1.5) is None
        ended = process.stop("deadline") or bench.fail("still running")
    assert 1.5 <= ended.wall_seconds < 15
    assert 0.2 < ended.cpu_seconds <= ended.wall_seconds + 0.5
    assert ended.peak_memory_bytes > 5 << 20


def test_use_of_a_killed_simulator_is_measured(bench: Bench) -> None:
    with bench.process("spin") as process:
        process.wait(1.5)
        process.kill("cancelled")
        ended = process.wait(20) or bench.fail("still running")
    assert ended.signal == signal.SIGKILL
    assert ended.cpu_seconds > 0.2


def test_an_executable_that_cannot_be_started_is_an_error(bench: Bench) -> None:
    bench.executable.write_text("#!/nowhere/interpreter\n")
    with pytest.raises(SimulatorNotStarted, match="No such file"), bench.process("status", 0):
        pass


def test_an_executable_outside_of_the_build_is_an_error(bench: Bench) -> None:
    bench.executable = bench.executable.rename(bench.top / "elsewhere")
    with pytest.raises(SimulatorNotStarted, match="elsewhere"), bench.process("status", 0):
        pass


def test_an_input_file_of_the_worker_can_be_read(bench: Bench) -> None:
    profile = bench.directory.cwd / "input.simc"
    profile.write_text("warrior=x")
    profile.chmod(0o600)
    bench.run("shows", "input.simc")
    assert bench.printed() == ["warrior=x"]


# Output


def test_updates_and_lines(bench: Bench) -> None:
    bench.run("progress")
    assert bench.printed() == ["version", "0/3", "1/3", "2/3", "3/3", "last words without an end"]
    assert bench.log() == "version\n3/3\nlast words without an end\n"
    assert bench.log("stderr") == "a warning\n"


def test_bytes_that_are_not_text_and_endless_lines(bench: Bench) -> None:
    bench.run("noise")
    first, second, third = bench.printed()
    assert first == "\ufffd\ufffd caf\xe9"
    assert set(second) == {"x"}
    assert len(second) == 8192
    assert third == "after"


def test_log_is_cut_with_a_note(bench: Bench) -> None:
    bench.limit(log_bytes=10)
    bench.run("progress")
    assert bench.log() == "version\n[cut after 10 bytes]\n"


def test_flood_is_stopped(bench: Bench) -> None:
    ended = bench.run("flood")
    assert ended.stopped_for == "output_flood"
    assert ended.signal == signal.SIGKILL
    assert sum(map(len, bench.printed())) <= LIMITS.output_bytes
    assert len(bench.log()) < LIMITS.log_bytes + 100


def test_a_failing_reader_does_not_stop_the_reading(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    process = bench.process("progress")
    process.on_line = Mock(side_effect=ValueError)
    with process:
        assert process.wait(20)
    assert bench.log().endswith("3/3\nlast words without an end\n")
    assert len(caplog.records) == 2


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_lines_may_be_cut_anywhere(size: int) -> None:
    updates: list[str] = []
    shown: list[str] = []
    lines = Lines(on_update=updates.append, on_line=shown.append)
    data = "one\r\n\ntw\u00f6\rthree\nfour\r".encode()
    for start in range(0, len(data), size):
        lines.feed(data[start : start + size])
    lines.finish()
    assert updates == ["one", "tw\u00f6", "three", "four"]
    assert shown == ["one", "", "three", "four"]


# Stopping


def test_interrupt_lets_it_write_a_report(bench: Bench) -> None:
    with bench.process("polite") as process:
        assert bench.heard("running")
        ended = process.stop("deadline") or bench.fail("still running")
    assert (ended.exit_status, ended.stopped_for) == (0, "deadline")
    assert (bench.directory.cwd / "report.json").read_text() == "{}"


def test_interrupt_works_where_the_worker_ignores_it(bench: Bench) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        test_interrupt_lets_it_write_a_report(bench)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_simulator_that_ignores_signals_is_killed_after_the_grace(bench: Bench) -> None:
    with bench.process("deaf") as process:
        assert bench.heard("running")
        signal_launcher(process, signal.SIGTERM)
        ended = process.stop("cancelled", grace_seconds=0.3) or bench.fail("still running")
    assert (ended.signal, ended.stopped_for) == (signal.SIGKILL, "cancelled")
    assert ended.wall_seconds < 15


def test_leaving_the_block_kills_it(bench: Bench) -> None:
    with bench.process("deaf"):
        assert bench.heard("running")
        assert alive(bench.top)
    assert alive(bench.top) == []


def test_the_first_reason_counts(bench: Bench) -> None:
    with bench.process("deaf") as process:
        process.interrupt("budget")
        process.kill("cancelled")
        ended = process.wait(20) or bench.fail("still running")
    assert ended.stopped_for == "budget"


def test_cpu_time_is_limited(bench: Bench) -> None:
    bench.limit(cpu_seconds=1)
    assert bench.run("spin").signal == signal.SIGXCPU


def test_memory_is_limited(bench: Bench) -> None:
    ended = bench.run("memory")
    assert ended.exit_status == 0
    assert bench.printed()[0].startswith("refused")
    assert ended.peak_memory_bytes <= LIMITS.memory_bytes


def test_time_is_limited_even_when_nobody_watches(bench: Bench) -> None:
    bench.limit(wall_seconds=1)
    ended = bench.run("deaf")
    assert (ended.signal, ended.stopped_for) == (signal.SIGKILL, "overtime")
    assert 1 <= ended.wall_seconds < 2


# Disk


def test_a_file_is_limited(bench: Bench) -> None:
    bench.run("big_file")
    assert (bench.directory.cwd / "big").stat().st_size == LIMITS.file_bytes


def test_large_files_are_a_flood(bench: Bench) -> None:
    bench.limit(file_bytes=64 << 20)
    assert bench.run("big_file").stopped_for == "disk_flood"


def test_many_files_are_a_flood(bench: Bench) -> None:
    bench.limit(disk_bytes=1 << 20)
    ended = bench.run("many_files")
    assert (ended.signal, ended.stopped_for) == (signal.SIGKILL, "disk_flood")


def test_a_deep_closed_tree_is_a_flood_and_is_removed(bench: Bench) -> None:
    assert bench.run("deep_tree").stopped_for == "disk_flood"
    bench.directory.remove()
    assert not bench.directory.root.exists()


# Processes


def test_the_thread_that_started_it_may_end(bench: Bench) -> None:
    process = bench.process("polite")
    starter = threading.Thread(target=process.start)
    starter.start()
    starter.join()
    with contextlib.closing(process):
        assert process.wait(0.5) is None
        ended = process.stop("deadline") or bench.fail("still running")
    assert ended.exit_status == 0


def test_runs_side_by_side_do_not_disturb_each_other(bench: Bench) -> None:
    with bench.process("deaf") as other:
        assert bench.heard("running")
        with PrivateDirectory.create(bench.top) as bench.directory:
            assert bench.run("daemon", "marker.txt").exit_status == 0
        assert other.wait(0) is None
        bench.directory = other.directory


def test_fork_bomb(bench: Bench) -> None:
    with bench.process("bomb") as process:
        assert bench.heard("bombed")
        process.kill("cancelled")
        assert process.wait(30)
    assert 1 <= bench.printed().count("bombed") < 100
    assert bench.run("status", 0).exit_status == 0


def test_a_simulator_that_keeps_moving_to_new_processes(bench: Bench) -> None:
    with bench.process("hare") as process:
        assert bench.heard("running")
        process.kill("cancelled")
        assert process.wait(8)
    assert "escaped" not in bench.printed()


@needs_root
def test_as_somebody_else_processes_are_counted_exactly(bench: Bench) -> None:
    with bench.process("bomb") as process:
        assert eventually(lambda: bench.printed().count("bombed") == LIMITS.processes)
        assert process.wait(0.5) is None
    assert bench.printed().count("bombed") == LIMITS.processes


def test_a_daemon_does_not_outlive_its_simulator(bench: Bench) -> None:
    ended = bench.run("daemon", "marker.txt")
    assert ended.exit_status == 0
    assert "daemon" in bench.printed()
    assert alive(bench.top) == []
    assert not (bench.directory.cwd / "marker.txt").exists()


WORKER = """
import sys, time
from pathlib import Path
from jobs.simulator.process import Limits, SimulatorProcess
from jobs.simulator.private_directory import PrivateDirectory
from jobs.simulator.sandbox import Sandbox

top, bubblewrap, executable, behaviour, *rest = sys.argv[1:]
limits = Limits(wall_seconds=60, cpu_seconds=60, memory_bytes=1 << 30, file_bytes=1 << 20, disk_bytes=1 << 20,
                processes=30, open_files=64, log_bytes=1000, output_bytes=100000)
readable = [Path(executable).parent, Path(sys.prefix), Path(sys.base_prefix)]
with SimulatorProcess([executable, behaviour, *rest], directory=PrivateDirectory(Path(top)), limits=limits,
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
        assert len(alive(bench.build)) >= 3
        worker.kill()
    assert eventually(lambda: alive(bench.build) == [])


def test_all_die_with_the_launcher(bench: Bench) -> None:
    with bench.process("deaf") as process:
        assert bench.heard("running")
        signal_launcher(process, signal.SIGKILL)
        ended = process.wait(20) or bench.fail("still running")
        assert eventually(lambda: alive(bench.build) == [])
    assert (ended.exit_status, ended.signal) == (None, None)


# Its surroundings


def test_environment_is_clean(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DJANGO_SECRET_KEY", "secret")
    bench.run("environment")
    names = [line.split("=")[0] for line in bench.printed() if "=" in line]
    assert names == ["HOME", "LANG", "LC_ALL", "PATH", "TZ", "XDG_CACHE_HOME"]
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
def test_a_root_worker_runs_it_as_somebody_else(bench: Bench) -> None:
    bench.run("environment")
    uid = next(int(line.split()[1]) for line in bench.printed() if line.startswith("uid"))
    assert 61184 <= uid <= 65519
    assert "groups" in [line.strip() for line in bench.printed()]
    assert bench.directory.cwd.stat().st_uid == 0


def test_a_build_that_all_can_reach(open_place: Path, bench: Bench) -> None:
    bench.build = open_place / "builds" / "one"
    bench.build.mkdir(parents=True)
    bench.executable = bench.build / "simulator"
    bench.executable.write_text("#!/bin/sh\necho ran > report; cat report")
    bench.executable.chmod(0o755)
    with PrivateDirectory.create(open_place) as directory:
        ran = bench.process()
        ran.directory, ran.readable = directory, [bench.build]
        with ran:
            ended = ran.wait(20) or bench.fail("still running")
    assert (ended.exit_status, bench.printed()[0]) == (0, "ran")


def test_what_is_not_a_report_is_refused(bench: Bench) -> None:
    bench.run("leaves", "/etc/passwd")
    for name in ("link.json", "fifo.json", "directory.json"):
        if os.path.lexists(bench.directory.cwd / name):
            with pytest.raises(UnsafeOutput):
                open_output(bench.directory.cwd, name, max_bytes=100)
    product = open_output(bench.directory.cwd, "good.json", max_bytes=100)
    assert product
    with product:
        assert product.read() == b"{}"


def test_others_tasks_are_allowed_for_and_cores_are_not() -> None:
    limits = resource_limits(LIMITS, other_tasks=7)
    assert (limits["RLIMIT_NPROC"], limits["RLIMIT_CORE"]) == ((37, 37), (0, 0))
