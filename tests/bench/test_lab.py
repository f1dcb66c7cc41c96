"""The simulator of the benchmarks, and the CPU time of programs."""

import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from bench import processes
from bench.lab import compiled_simulator
from bench.scaling import profile
from jobs.planning.multistage import beaten
from simc import command
from simc.report_reader import read_report
from simc.reports import Report

BUSY_SECONDS = 0.4
# A parent that waits for a busy child, then prints a line and waits for its input to end. The kernel's figures are
# rounded down to hundredths of a second, so the child is busy a little longer.
PARENT = f"""
import subprocess, sys
busy = "import time\\nwhile time.process_time() < {BUSY_SECONDS} + 0.05: pass"
subprocess.run([sys.executable, "-c", busy])
print("done", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def simulator(tmp_path: Path) -> Path:
    """The simulator that sleeps."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    return compiled_simulator(tmp_path)


def simulated(simulator: Path, text: str) -> Report:
    """Run a profile and read its report."""
    folder = simulator.parent
    (folder / command.PROFILE_NAME).write_text(text)
    arguments = command.arguments(threads=1, json_version=2, html=False)
    subprocess.run([simulator, *arguments], cwd=folder, capture_output=True, check=True)
    with (folder / command.REPORT_NAME).open("rb") as stream:
        return read_report(stream, max_bytes=1 << 20)


def test_the_simulator_prints_its_version(simulator: Path) -> None:
    done = subprocess.run([simulator, *command.probe_arguments()], capture_output=True, text=True, check=True)
    assert command.parse_version_line(done.stdout) is not None


def test_the_actor_is_named_after_the_time_of_its_start(simulator: Path) -> None:
    (player,) = simulated(simulator, "iterations=1\n").players
    assert float(player.name) > 1_700_000_000


def test_profilesets_sleep_with_their_own_numbers(simulator: Path) -> None:
    lines = ["iterations=5", 'profileset."a"+=x=1', "profileset.b+=x=1", "profileset.b+=iterations=7"]
    lines += ["profileset.b+=target_error=0", "profileset.c+=iterations=900", "profileset.c+=target_error=1.2"]
    found = simulated(simulator, "\n".join(lines))
    assert found.iterations == 5
    assert {entry.name: entry.iterations for entry in found.profilesets} == {"a": 5, "b": 7, "c": 200}


@pytest.mark.slow
def test_stages_cull_some_profilesets(simulator: Path) -> None:
    found = simulated(simulator, profile(100, iterations=None) + "iterations=100000\ntarget_error=1\n")
    culled = beaten(found.profilesets)
    assert 30 < len(culled) < 90
    assert "set0" not in culled


@pytest.mark.slow
def test_the_time_and_memory_of_a_program_include_its_children(tmp_path: Path) -> None:
    log = tmp_path / "busy.log"
    command_line = [sys.executable, "-c", PARENT]
    with log.open("w") as output, subprocess.Popen(command_line, stdin=subprocess.PIPE, stdout=output) as process:
        while not log.read_text():
            assert process.poll() is None
        assert processes.cpu_seconds(psutil.Process())["busy"] >= BUSY_SECONDS
        assert 1 < processes.megabytes(psutil.Process())["busy"] < 1000
        process.communicate()
