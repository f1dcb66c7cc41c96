"""Limits of time, memory, disk, output and processes of a simulator."""

import signal

from sandbox.process import resource_limits
from tests.sandbox.bench import LIMITS, Bench, eventually, needs_root


def test_cpu_time_is_limited(bench: Bench) -> None:
    bench.limit(cpu_seconds=1)
    assert bench.run("spin").signal == signal.SIGXCPU


def test_memory_is_limited(bench: Bench) -> None:
    result = bench.run("memory")
    assert result.exit_status == 0
    assert bench.printed()[0].startswith("refused")
    assert result.peak_memory_bytes <= LIMITS.memory_bytes


def test_time_is_limited_without_the_workers_help(bench: Bench) -> None:
    bench.limit(wall_seconds=1)
    result = bench.run("deaf")
    assert (result.signal, result.stopped_for) == (signal.SIGKILL, "overtime")
    # Much less than the simulator would run.
    assert 1 <= result.wall_seconds < 20


def test_the_size_of_a_file_is_limited(bench: Bench) -> None:
    bench.run("big_file")
    assert (bench.directory.cwd / "big").stat().st_size == LIMITS.file_bytes


def test_large_files_stop_the_simulator(bench: Bench) -> None:
    bench.limit(file_bytes=64 << 20)
    assert bench.run("big_file").stopped_for == "disk_flood"


def test_many_files_stop_the_simulator(bench: Bench) -> None:
    bench.limit(disk_bytes=1 << 20)
    result = bench.run("many_files")
    assert (result.signal, result.stopped_for) == (signal.SIGKILL, "disk_flood")


def test_a_deep_closed_tree_stops_the_simulator(bench: Bench) -> None:
    assert bench.run("deep_tree").stopped_for == "disk_flood"
    bench.directory.remove()
    assert not bench.directory.root.exists()


def test_too_much_output_stops_the_simulator(bench: Bench) -> None:
    result = bench.run("flood")
    assert result.stopped_for == "output_flood"
    assert result.signal == signal.SIGKILL
    assert sum(map(len, bench.printed())) <= LIMITS.output_bytes
    assert len(bench.log()) < LIMITS.log_bytes + 100


def test_a_fork_bomb_is_contained(bench: Bench) -> None:
    with bench.process("bomb") as process:
        assert bench.prints("bombed")
        process.kill("cancelled")
        assert process.wait(30)
    assert 1 <= bench.printed().count("bombed") < 100
    assert bench.run("status", 0).exit_status == 0


@needs_root
def test_processes_of_another_user_are_counted_exactly(bench: Bench) -> None:
    with bench.process("bomb") as process:
        assert eventually(lambda: bench.printed().count("bombed") == LIMITS.processes)
        assert process.wait(0.5) is None
    assert bench.printed().count("bombed") == LIMITS.processes


def test_other_tasks_of_the_user_do_not_use_up_the_limit() -> None:
    limits = resource_limits(LIMITS, other_tasks=7)
    assert (limits["RLIMIT_NPROC"], limits["RLIMIT_CORE"]) == ((37, 37), (0, 0))
