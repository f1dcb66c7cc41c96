"""Schemathesis against a running stack: `python -m tests.contract.fuzz CASES` tries both variants with many cases."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

ROOT = Path(__file__).resolve().parent.parent.parent
CONFIGURATION = ROOT / "tests" / "contract" / "schemathesis.toml"
PHASES = "examples,coverage,fuzzing,stateful"
# What a caller may do is the plan's; here it may do everything, so that the limits are not all that is seen.
ROOM = """
    UPDATE billing_plan SET submissions_per_minute = 1000000, reads_per_minute = 1000000, max_active_jobs = 1000000
"""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a run found: how many requests it made, and its own words."""

    cases: int
    failed: bool
    text: str


def make_room(database_url: str) -> None:
    """Lift the plans' limits on requests and jobs."""
    with psycopg.connect(database_url) as connection:
        connection.execute(ROOM)


def fuzz(ready: dict[str, str], *, examples: int, folder: Path, seed: int | None = None) -> Report:
    """Try every operation of a running stack, with up to `examples` generated requests in each phase."""
    make_room(ready["databaseUrl"])
    report = folder / "report.ndjson"
    command = [
        *(sys.executable, "-m", "schemathesis", "--config-file", str(CONFIGURATION)),
        *("run", f"{ready['url']}/v1/openapi.json"),
        *("--phases", PHASES, "--max-examples", str(examples)),
        *("--report", "ndjson", "--report-ndjson-path", str(report)),
        *(["--seed", str(seed)] if seed is not None else []),
    ]
    environment = os.environ | {"API_KEY": ready["apiKey"], "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    return Report(cases=count(report), failed=ran.returncode != 0, text=ran.stdout + ran.stderr)
