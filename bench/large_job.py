"""Cost of a job with 5,000 profilesets, without its simulator: the worker's memory and reads of the result.

Runs on the whole stack, started with `manage.py local`; takes one or two minutes.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

from tests.stack import TERMINAL, Stack, running_stack

PROFILESETS = 5_000
READS = 200
POLL_SECONDS = 0.2


def profile() -> str:
    """Return a profile of one character and many trinkets."""
    lines = (
        f'profileset."Trinket number {number}"+=trinket1=stone,id={number},ilevel={600 + number % 90}'
        for number in range(PROFILESETS)
    )
    return "\n".join(["frost_mage.simc", "iterations=120", *lines, ""])


def _peak_while_running(stack: Stack, job_id: str) -> float:
    """Wait for a job to end; return the worker's peak resident memory in megabytes."""
    worker: psutil.Process = stack.worker()
    max_bytes = 0
    while stack.job(job_id)["status"] not in TERMINAL:
        max_bytes = max(max_bytes, worker.memory_info().rss)
        time.sleep(POLL_SECONDS)
    return max_bytes / 1e6


def _read_milliseconds(stack: Stack, job_id: str) -> list[float]:
    """Read the result repeatedly; return the duration of each response."""
    durations = []
    for _ in range(READS):
        started = time.perf_counter()
        stack.call("GET", f"jobs/{job_id}/result")
        durations.append((time.perf_counter() - started) * 1000)
    return durations


def figures(stack: Stack, *, multi_stage: bool) -> str:
    """Run one job and return its figures."""
    job_id = stack.submit(profile(), runtime={"multiStage": multi_stage}, artifacts={"csv": True, "html": True})
    peak = _peak_while_running(stack, job_id)
    result = stack.call("GET", f"jobs/{job_id}/result")
    assert result["status"] == "completed", result["statusReason"]
    assert result["result"]["summary"]["mainActor"]["profilesets"]["count"] == PROFILESETS
    cuts = statistics.quantiles(_read_milliseconds(stack, job_id), n=100)
    seconds = result["runtime"]["simDurationMs"] / 1000
    return f"{seconds:.0f} s, worker {peak:.0f} MB, result p50 {cuts[49]:.0f} p99 {cuts[98]:.0f} ms"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="simservice-bench-") as name, running_stack(Path(name)) as stack:
        rows = {
            f"{PROFILESETS:,} profilesets, one pass": figures(stack, multi_stage=False),
            f"{PROFILESETS:,} profilesets, in stages": figures(stack, multi_stage=True),
        }
    sys.stdout.writelines(f"{name:<34}{figure:>20}\n" for name, figure in rows.items())


if __name__ == "__main__":
    main()
