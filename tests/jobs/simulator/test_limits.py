"""Limits of time, memory, disk, output and processes of a simulator."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from jobs.simulator import usage
from jobs.simulator.private_directory import PrivateDirectory
from jobs.simulator.process import resource_limits
from tests.jobs.simulator.bench import (
    LIMITS,
    PROJECT,
    Bench,
    eventually,
    needs_root,
    refusals,
)


def test_cpu_time_is_limited(bench: Bench) -> None:
    bench.limit(cpu_seconds=1)
    assert bench.run("spin").signal == signal.SIGXCPU


def test_memory_is_limited(bench: Bench) -> None:
    ended = bench.run("memory")
    assert ended.exit_status == 0
    assert bench.printed()[0].startswith("refused")
    assert ended.peak_memory_bytes <= LIMITS.memory_bytes


def test_time_is_limited_without_the_workers_help(bench: Bench) -> None:
    bench.limit(wall_seconds=1)
    ended = bench.run("deaf")
    assert (ended.signal, ended.stopped_for) == (signal.SIGKILL, "overtime")
    assert 1 <= ended.wall_seconds < 2


def test_the_size_of_a_file_is_limited(bench: Bench) -> None:
    bench.run("big_file")
    assert (bench.directory.cwd / "big").stat().st_size == LIMITS.file_bytes


def test_large_files_stop_the_simulator(bench: Bench) -> None:
    bench.limit(file_bytes=64 << 20)
    assert bench.run("big_file").stopped_for == "disk_flood"


def test_many_files_stop_the_simulator(bench: Bench) -> None:
    bench.limit(disk_bytes=1 << 20)
    ended = bench.run("many_files")
    assert (ended.signal, ended.stopped_for) == (signal.SIGKILL, "disk_flood")


def test_a_deep_closed_tree_stops_the_simulator(bench: Bench) -> None:
    assert bench.run("deep_tree").stopped_for == "disk_flood"
    bench.directory.remove()
    assert not bench.directory.root.exists()


def test_too_much_output_stops_the_simulator(bench: Bench) -> None:
    ended = bench.run("flood")
    assert ended.stopped_for == "output_flood"
    assert ended.signal == signal.SIGKILL
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


def test_the_kernel_kills_a_simulator_before_the_worker(bench: Bench) -> None:
    with bench.process("hoard", 1, 1) as process:
        assert bench.prints("holding 1")
        assert process.launcher
        simulator = psutil.Process(process.launcher.pid).children(recursive=True)[-1]
        assert Path("/proc", str(simulator.pid), "oom_score_adj").read_text() == "1000\n"


@pytest.mark.parametrize("behaviour", ["hoard", "headless_hoard"])
def test_memory_is_limited_for_all_processes_together(bench: Bench, behaviour: str) -> None:
    bench.limit(memory_bytes=256 << 20)
    ended = bench.run(behaviour, 6, 60)
    assert (ended.signal, ended.stopped_for) == (signal.SIGKILL, "memory_limit")
    assert ended.wall_seconds < 20


def test_shared_memory_counts_once(bench: Bench) -> None:
    bench.limit(memory_bytes=256 << 20)
    ended = bench.run("share", 6, 100)
    assert (ended.exit_status, ended.stopped_for) == (0, None)
    assert bench.printed() == ["seeing True"] * 6


def test_memory_cannot_be_hidden(bench: Bench) -> None:
    bench.run("hide")
    assert refusals(bench) <= {errno.EPERM, errno.EACCES, errno.ENOENT}


@pytest.fixture
def folder_in_memory(bench: Bench) -> Iterator[Bench]:
    """Put the private directory on a tmpfs."""
    shared = Path("/dev", "shm")
    if not os.access(shared, os.W_OK):
        pytest.skip("this machine offers no tmpfs")
    with tempfile.TemporaryDirectory(dir=shared) as place:
        Path(place).chmod(0o755)
        with PrivateDirectory.create(Path(place)) as bench.directory:
            yield bench


def test_files_in_memory_count_as_memory(folder_in_memory: Bench) -> None:
    bench = folder_in_memory
    bench.limit(memory_bytes=128 << 20, disk_bytes=512 * (1 << 20), file_bytes=8 * (1 << 20))
    ended = bench.run("fill_directory", 140)
    assert ended.stopped_for == "memory_limit"


def test_disk_use_counts_entries_and_blocks_but_no_links(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "large").write_bytes(bytes(100_000))
    (tmp_path / "empty").touch()
    (tmp_path / "link").symlink_to("/usr")
    assert 110_000 < usage.disk_use(str(tmp_path), limit=1 << 30, on_entry=lambda: None) < 130_000


def test_counting_stops_at_the_limit(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / str(number)).touch()
    assert usage.disk_use(str(tmp_path), limit=10_000, on_entry=lambda: None) == 3 * usage.ENTRY_BYTES


def test_a_removed_directory_uses_no_disk(tmp_path: Path) -> None:
    assert usage.disk_use(str(tmp_path / "gone"), limit=1, on_entry=lambda: None) == 0


LOWER = """
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from jobs.simulator import enter
setrlimit(RLIMIT_NOFILE, (50, 60))
enter.limit_resources({"RLIMIT_NOFILE": (64, 64)})
print(*getrlimit(RLIMIT_NOFILE))
"""


def test_a_lower_limit_is_not_raised() -> None:
    done = subprocess.run([sys.executable, "-c", LOWER], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout == "60 60\n"
