"""The end of a run, and the inputs that affect its results."""

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.minisim.conftest import EXECUTABLE, MAGE, Finished, Run

SETS = "profileset.a+=level=79\nprofileset.b+=level=78"


def facts(result: Finished) -> Any:
    """Return the report without times and properties of the machine."""
    sim = result.report["sim"]
    del (
        sim["statistics"]["elapsed_cpu_seconds"],
        sim["statistics"]["elapsed_time_seconds"],
        sim["options"]["threads"],
    )
    return sim


def test_results_depend_on_the_seed_not_on_threads(run: Run) -> None:
    assert facts(run(f"{MAGE}\n{SETS}", "threads=1")) == facts(run(f"{MAGE}\n{SETS}", "threads=4"))


def test_another_seed_gives_another_report(run: Run) -> None:
    assert run(MAGE).dps["mean"] != run(MAGE, "seed=2").dps["mean"]


def test_without_a_seed_every_run_differs(run: Run) -> None:
    assert run(MAGE, "seed=0").dps["mean"] != run(MAGE, "seed=0").dps["mean"]


def test_deterministic_needs_no_seed(run: Run) -> None:
    assert run(MAGE, "seed=0", "deterministic=1").dps == run(MAGE, "seed=0", "deterministic=1").dps


def test_a_seed_does_not_reach_deterministic_profilesets(run: Run) -> None:
    first, second = (run(f"{MAGE}\n{SETS}", "deterministic=1", f"seed={seed}").report["sim"] for seed in (1, 2))
    assert first["profilesets"] == second["profilesets"]
    assert first["players"] != second["players"]


def test_iterations_without_a_target_error_are_exact(run: Run) -> None:
    result = run(MAGE, "iterations=137")
    assert (result.dps["count"], result.report["sim"]["options"]["target_error"]) == (137, 0)


@pytest.mark.parametrize("target", [2.0, 0.5, 0.2])
def test_a_run_ends_at_its_target_error(run: Run, target: float) -> None:
    result = run(MAGE, f"target_error={target}", "iterations=0")
    error = 196 * result.dps["mean_std_dev"] / result.dps["mean"]
    assert error <= target
    assert result.dps["count"] == 100 or error > target * 0.7


def test_the_error_is_checked_once_per_interval(run: Run) -> None:
    assert run(MAGE, "iterations=0", "target_error=5", "analyze_error_interval=700").dps["count"] in range(700, 950)


def test_iterations_limit_a_target_error(run: Run) -> None:
    assert run(MAGE, "target_error=0.01", "iterations=230").dps["count"] == 230


def test_the_default_target_error_is_0_2_percent(run: Run) -> None:
    result = run(MAGE, "iterations=0")
    assert result.report["sim"]["options"]["target_error"] == 0.2
    assert 500 < result.dps["count"] < 5000


def test_scale_factors_lower_the_default_target_error(run: Run) -> None:
    result = run(MAGE, "iterations=0", "calculate_scale_factors=1")
    assert result.report["sim"]["options"]["target_error"] == 0.05


def test_without_iterations_a_target_error_stays(run: Run) -> None:
    result = run(MAGE.replace("iterations=100", "target_error=2"), "calculate_scale_factors=1")
    assert result.report["sim"]["options"]["target_error"] == 2


def test_fight_lengths_stay_within_their_range(run: Run) -> None:
    lengths = run(MAGE, "max_time=200", "vary_combat_length=0.1").report["sim"]["statistics"]["simulation_length"]
    assert 180 <= lengths["min"] < 185
    assert 215 < lengths["max"] <= 220


def test_a_profileset_has_its_own_iterations(run: Run) -> None:
    result = run(f"{MAGE}\nprofileset.a+=iterations=60\n{SETS.splitlines()[1]}")
    iterations = {row["name"]: row["iterations"] for row in result.report["sim"]["profilesets"]["results"]}
    assert iterations == {"a": 60, "b": 100}


def test_an_extreme_target_error_is_limited_too(run: Run) -> None:
    assert run(MAGE, "target_error=1e-300").dps["count"] == 100


def interrupted(profile: str, directory: Path, *, at: bytes) -> tuple[int, Any, str]:
    """Send SIGINT at the first update of a phase; return the exit status, the report and the output after it."""
    command: list[str | Path] = [EXECUTABLE, *profile.split(), "json2=report.json"]
    with subprocess.Popen(
        command, cwd=directory, env={}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdout is not None
        while at not in process.stdout.read(4096):
            pass
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    return process.returncode, json.loads((directory / "report.json").read_text()), out.decode()


def test_an_interrupted_run_writes_a_report(tmp_path: Path) -> None:
    status, report, _ = interrupted(f"{MAGE} iterations=900000", tmp_path, at=b"Generating Baseline")
    assert status == 0
    assert 0 < report["sim"]["options"]["iterations"] < 900_000
    assert "canceled" in report["logs"][0]["message"]


def test_the_last_update_before_a_stop_looks_complete(tmp_path: Path) -> None:
    _, report, out = interrupted(f"{MAGE} iterations=900000", tmp_path, at=b"Generating Baseline")
    done = report["sim"]["options"]["iterations"]
    last = [line for line in re.split(r"[\r\n]", out) if line.startswith("Generating Baseline")][-1]
    assert f"[===================>] {done}/{done} " in last


def test_an_interrupt_with_profilesets_is_a_failure(tmp_path: Path) -> None:
    profile = f"{MAGE} iterations=900000 profileset.a+=level=70"
    status, report, _ = interrupted(profile, tmp_path, at=b"Generating Baseline")
    assert status == 1
    assert "profilesets" not in report["sim"]


def test_an_interrupted_profileset_is_left_out(tmp_path: Path) -> None:
    profile = f"{MAGE} profileset.done+=level=70 profileset.cut+=iterations=900000"
    status, report, _ = interrupted(profile, tmp_path, at=b"Profileset: cut")
    assert status == 1
    assert [row["name"] for row in report["sim"]["profilesets"]["results"]] == ["done"]


@pytest.mark.slow
@pytest.mark.parametrize("size", ["iterations=50000", "iterations=100 target_error=0.001 max_time=86400"])
def test_a_run_needs_little_address_space(tmp_path: Path, size: str) -> None:
    script = 'ulimit -v 220000; exec "$0" "$@"'
    command: list[str | Path] = ["sh", "-c", script, EXECUTABLE, "frost_mage.simc", "html=x.html", *size.split()]
    process = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, check=False)
    assert process.returncode == 0
