"""Runs of the built-in simulator as an executable, in an empty directory with a clean environment."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

EXECUTABLE = Path(__file__).parents[2] / "minisim" / "minisim"
MAGE = "mage=Ada level=80 spec=frost main_hand=staff,id=7,ilevel=640 iterations=100 seed=1"


@dataclass
class Finished:
    """A finished run."""

    status: int
    out: str
    err: str
    directory: Path

    @property
    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads((self.directory / "report.json").read_text())
        return report

    @property
    def dps(self) -> dict[str, float]:
        dps: dict[str, float] = self.report["sim"]["players"][0]["collected_data"]["dps"]
        return dps


Run = Callable[..., Finished]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that runs minisim with a profile on standard input and writes a JSON report."""

    def call(profile: str, *arguments: str) -> Finished:
        command: list[str | Path] = [EXECUTABLE, "-", "json2=report.json", *arguments]
        process = subprocess.run(
            command, input=profile.encode(), capture_output=True, cwd=tmp_path, env={}, timeout=60, check=False
        )
        return Finished(process.returncode, process.stdout.decode(), process.stderr.decode(), tmp_path)

    return call
