"""CPU time of programs, the stub simulator, and the plots."""

import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bench import growth, growth_plot, processes, steps, steps_plot, stub
from bench.operations import NAMES
from simc import command
from simc.report_reader import read_report

BUSY_SECONDS = 0.4
# The kernel's figures are rounded down to hundredths of a second, so the child is busy a little longer.
# A parent that waits for a busy child, then prints a line and waits for its input to end.
PARENT = f"""
import subprocess, sys
busy = "import time\\nwhile time.process_time() < {BUSY_SECONDS} + 0.05: pass"
subprocess.run([sys.executable, "-c", busy])
print("done", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def name() -> str:
    """The name of the program."""
    return "busy"


@pytest.fixture
def program(tmp_path: Path, name: str) -> Iterator[Path]:
    """Run a program whose output goes to a log, until its busy child has ended; return the log."""
    log = tmp_path / f"{name}.log"
    with log.open("w") as output:
        command_line = [sys.executable, "-c", PARENT]
        with subprocess.Popen(command_line, stdin=subprocess.PIPE, stdout=output) as process:
            while not log.read_text():
                assert process.poll() is None
            yield log
            process.communicate()


@pytest.mark.slow
def test_programs_include_their_ended_children(program: Path) -> None:
    seconds = processes.cpu_seconds(psutil.Process())
    assert seconds["busy"] >= BUSY_SECONDS
    assert processes.spent({"busy": 0.1}, seconds)["busy"] == pytest.approx(seconds["busy"] - 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", [processes.SIMULATION])
def test_the_simulation_worker_is_divided(program: Path) -> None:
    seconds = processes.cpu_seconds(psutil.Process())
    assert seconds[processes.SIMULATION] < BUSY_SECONDS
    assert sum(seconds[part] for part in processes.SIMULATION_PARTS) >= BUSY_SECONDS


@pytest.mark.slow
def test_memory_is_listed_by_program(program: Path) -> None:
    assert 1 < processes.megabytes(psutil.Process())["busy"] < 1000


@pytest.fixture(params=["compiled", "script"])
def simulator(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the stub simulator, of both kinds where a compiler is available."""
    if request.param == "compiled" and not shutil.which("cc"):
        pytest.skip("no C compiler")
    if request.param == "script":
        monkeypatch.setattr(stub, "COMPILERS", ())
    return stub.build(tmp_path / "build")


def test_the_stub_prints_its_version(simulator: Path) -> None:
    done = subprocess.run([simulator, *command.probe_arguments()], capture_output=True, text=True, check=True)
    version = command.parse_version_line(done.stdout)
    assert version is not None
    assert version.simc_version == "1120-01"


def test_the_stub_writes_a_valid_report(simulator: Path, tmp_path: Path) -> None:
    arguments = command.arguments(threads=1, json_version=2, html=True)
    subprocess.run([simulator, *arguments], cwd=tmp_path, capture_output=True, check=True)
    with (tmp_path / command.REPORT_NAME).open("rb") as report:
        (player,) = read_report(report, max_bytes=10_000).players
    assert float(player.name) > 1_700_000_000
    assert (tmp_path / command.HTML_NAME).exists()


def test_the_plot_has_a_panel_for_each_operation() -> None:
    rows = {str(factor): {name: [factor * 2.0, 9.0] for name in NAMES} for factor in growth.FACTORS}
    measured = {"commit": "<abc>", "base": growth.BASE, "dimensions": dict.fromkeys(growth.BASE, rows)}
    drawn = ElementTree.fromstring(growth_plot.draw(measured))  # noqa: S314 - our own
    lines = drawn.findall(".//{*}polyline")
    assert len(drawn.findall("{*}g")) == len(NAMES)
    assert len(lines) == len(NAMES) * len(growth.BASE)
    heights = [float(point.split(",")[1]) for point in lines[0].attrib["points"].split()]
    # Larger values are higher up, and all are inside of the panel.
    assert heights == sorted(heights, reverse=True)
    assert all(growth_plot.TOP <= height <= growth_plot.HEIGHT - growth_plot.BOTTOM for height in heights)


def test_the_bars_show_each_value_to_scale() -> None:
    measured = {
        "commit": "<abc>",
        "machine": {"cores": 2},
        "steps": {name: [number + 1.0, 90.0] for number, name in enumerate(steps.STEPS)},
        "cpu": {"sim": 30.0, "web": 10.0},
    }
    drawn = ElementTree.fromstring(steps_plot.draw(measured))  # noqa: S314 - our own
    bars = [float(each.attrib["width"]) for each in drawn.findall("{*}rect") if each.attrib["height"] != "11"]
    assert len(bars) == len(steps.STEPS) + 2
    assert bars[-2] == pytest.approx(bars[-1] * 3, abs=0.2)
    assert sum(bars[-2:]) == pytest.approx(sum(bars[:-2]), abs=1)
    assert "40.0 ms" in str(ElementTree.tostring(drawn))
