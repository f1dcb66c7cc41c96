"""Runs schemathesis against a local stack. `python -m tests.contract.fuzz N` tests both variants."""

import os
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.stack import ROOT, Stack, running_stack

CONFIGURATION = ROOT / "tests" / "contract" / "schemathesis.toml"
SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
VARIANTS = ("C", "R")


@dataclass(frozen=True, kw_only=True)
class Report:
    """Result of a run: number of generated requests, whether a check failed, and the output."""

    cases: int
    failed: bool
    text: str


def fuzz(stack: Stack, *, examples: int, seed: int | None = None) -> Report:
    """Test every operation of a stack with up to `examples` generated requests in each phase.

    The same `seed` generates the same requests; without one, each run generates others.
    """
    stack.lift_limits()
    command = [
        *(str(SCHEMATHESIS), "--config-file", str(CONFIGURATION)),
        *("run", f"{stack.ready['url']}/v1/openapi.json", "--no-color", "--max-examples", str(examples)),
        *(() if seed is None else ("--seed", str(seed))),
    ]
    environment = os.environ | known(stack) | {"API_KEY": stack.ready["apiKey"], "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    text = ran.stdout + ran.stderr
    generated = re.search(r"([0-9]+) generated", text)
    return Report(cases=int(generated[1]) if generated else 0, failed=ran.returncode != 0, text=text)


def known(stack: Stack) -> dict[str, str]:
    """Run a job and return its ids as environment variables for the hooks."""
    job_id = stack.submit(artifacts={"csv": True})
    stack.wait_for_end(job_id)
    result = stack.call("GET", f"jobs/{job_id}/result")
    artifact = result["result"]["artifacts"][0]
    return {
        "KNOWN_getJobResult": job_id,
        "KNOWN_getArtifactUrl": artifact["id"],
        "KNOWN_downloadArtifact": artifact["url"].rpartition("/")[2],
        "KNOWN_getReportData": result["links"]["share"].rpartition("/")[2],
        "KNOWN_getManifest": result["links"]["manifest"].rpartition("/")[2],
    }


def main(examples: int) -> int:
    """Test both variants, print the results and return the exit status."""
    reports = []
    for variant in VARIANTS:
        with ExitStack() as ending:
            folder = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="simservice-fuzz-")))
            stack = ending.enter_context(running_stack(folder, API_VARIANT=variant))
            report = fuzz(stack, examples=examples)
        sys.stdout.write(f"{report.text}\nVariant {variant}: {report.cases} requests.\n\n")
        reports.append(report)
    sys.stdout.write(f"{sum(report.cases for report in reports)} requests in total.\n")
    return int(any(report.failed for report in reports))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
