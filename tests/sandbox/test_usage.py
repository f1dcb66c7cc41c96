"""Memory and disk that a simulator uses: limits for all processes together."""

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

from sandbox import usage
from sandbox.private_directory import PrivateDirectory
from tests.sandbox.bench import PROJECT, Bench, refusals


def test_the_kernel_kills_a_simulator_before_the_worker(bench: Bench) -> None:
    with bench.process("hoard", 1, 1) as process:
        assert bench.prints("holding 1")
        below = psutil.Process(process.supervisor.pid).children(recursive=True)
        simulator = next(each for each in below if str(bench.executable) in each.cmdline())
        assert Path("/proc", str(simulator.pid), "oom_score_adj").read_text() == "1000\n"


@pytest.mark.parametrize("behaviour", ["hoard", "headless_hoard"])
def test_memory_is_limited_for_all_processes_together(bench: Bench, behaviour: str) -> None:
    bench.limit(memory_bytes=256 << 20)
    result = bench.run(behaviour, 6, 60)
    assert (result.signal, result.stopped_for) == (signal.SIGKILL, "memory_limit")
    assert result.wall_seconds < 20


def test_shared_memory_counts_once(bench: Bench) -> None:
    bench.limit(memory_bytes=256 << 20)
    result = bench.run("share", 6, 100)
    assert (result.exit_status, result.stopped_for) == (0, None)
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
    with tempfile.TemporaryDirectory(dir=shared) as path:
        Path(path).chmod(0o755)
        with PrivateDirectory.create(Path(path)) as bench.directory:
            yield bench


def test_files_in_memory_count_as_memory(folder_in_memory: Bench) -> None:
    bench = folder_in_memory
    bench.limit(memory_bytes=128 << 20, disk_bytes=512 * (1 << 20), file_bytes=8 * (1 << 20))
    result = bench.run("fill_directory", 140)
    assert result.stopped_for == "memory_limit"


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
from sandbox import confine
setrlimit(RLIMIT_NOFILE, (50, 60))
confine.limit_resources({"RLIMIT_NOFILE": (64, 64)})
print(*getrlimit(RLIMIT_NOFILE))
"""


def test_a_lower_limit_is_not_raised() -> None:
    done = subprocess.run([sys.executable, "-c", LOWER], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout == "60 60\n"


def test_a_process_may_end_while_its_threads_are_listed() -> None:
    for _ in range(300):
        with subprocess.Popen(["/bin/sh", "-c", "/bin/true & echo $!"], stdout=subprocess.PIPE) as shell:
            assert shell.stdout
            child = int(shell.stdout.readline())
            for _ in range(50):
                usage.threads(child)
