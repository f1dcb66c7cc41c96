"""Cost of a job with 5,000 profilesets, without its simulator: the worker's memory and reads of the result.

Runs on the whole stack, started with `manage.py local`; takes two or three minutes. In shards, one worker
runs all slots, so its memory is an upper bound for that of a conductor alone.
"""

import gzip
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import psutil
import psycopg

from simc.report_reader import read_report
from tests.stack import ROOT, TERMINAL, Stack, running_stack

PROFILESETS = 5_000
READS = 200
POLL_SECONDS = 0.2
SLOTS = 4
MAX_WORKER_MB = 150
MAX_REPORT_BYTES = 1 << 28
ACTOR = ROOT / "minisim" / "profiles" / "frost_mage.simc"
REPORT = "SELECT storage_name FROM jobs_artifact WHERE job_id = %s AND kind = 'json_report'"
# The number of shards, and the seconds from the end of the last one to the end of the job
MERGE = """
    SELECT count(run.id), extract(epoch FROM max(completed_at) - max(ended_at))::float8
    FROM jobs_run AS run JOIN jobs_job AS job ON job.id = job_id WHERE job_id = %s
"""


def profile(actor: str = "frost_mage.simc") -> str:
    """Return a profile with many trinkets. `actor` gives the character, as lines or as a file to include."""
    lines = (
        f'profileset."Trinket number {number}"+=trinket1=stone,id={number},ilevel={600 + number % 90}'
        for number in range(PROFILESETS)
    )
    return "\n".join([actor, "iterations=120", *lines, ""])


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


def figures_in_shards(stack: Stack) -> str:
    """Run one job in shards, check its merged report, and return its figures."""
    before = stack.worker().memory_info().rss / 1e6
    # A profile with includes would run as one process.
    job_id = stack.submit(profile(ACTOR.read_text()), artifacts={"csv": True})
    peak = _peak_while_running(stack, job_id)
    job = stack.job(job_id)
    assert job["status"] == "completed", job["statusReason"]
    assert job["runtime"]["slotsUsed"] == SLOTS, "the job did not run on all slots"
    with psycopg.connect(stack.ready["databaseUrl"]) as database:
        row = database.execute(MERGE, [job_id]).fetchone()
        assert row is not None
        with _report(stack, database, job_id) as stream:
            started = time.perf_counter()
            _require_every_profileset(stream)
            read_seconds = time.perf_counter() - started
    mark = "✓" if peak <= MAX_WORKER_MB else "✗"
    return (
        f"{job['runtime']['totalDurationMs'] / 1000:.0f} s, {row[0]} shards on {SLOTS} slots, "
        f"worker {before:.0f} MB before, {peak:.0f} MB at most (aim ≤ {MAX_WORKER_MB}) {mark}, "
        f"from the end of the last shard to the end of the job {row[1]:.2f} s, report read in {read_seconds:.2f} s"
    )


@contextmanager
def _report(stack: Stack, database: psycopg.Connection[tuple[str, ...]], job_id: str) -> Iterator[BinaryIO]:
    """Open the job's only JSON report during the block."""
    ((name,),) = database.execute(REPORT, [job_id]).fetchall()
    with gzip.open(stack.data / "files" / "artifacts" / name) as stream:
        yield cast(BinaryIO, stream)


def _require_every_profileset(stream: BinaryIO) -> None:
    """Assert that a report contains every profileset once."""
    names = [entry.name for entry in read_report(stream, max_bytes=MAX_REPORT_BYTES).profilesets]
    expected = [f"Trinket number {number}" for number in range(PROFILESETS)]
    assert sorted(names) == sorted(expected), "profilesets are missing or repeated"


def _rows(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the title and the figures of each job."""
    with running_stack(folder / "whole") as stack:
        yield f"{PROFILESETS:,} profilesets, one pass", figures(stack, multi_stage=False)
        yield f"{PROFILESETS:,} profilesets, in stages", figures(stack, multi_stage=True)
    with running_stack(folder / "shards", SIM_SLOTS=str(SLOTS)) as stack:
        yield f"{PROFILESETS:,} profilesets, in shards", figures_in_shards(stack)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="simservice-bench-") as name:
        sys.stdout.writelines(f"{title:<34}{figure:>20}\n" for title, figure in _rows(Path(name)))


if __name__ == "__main__":
    main()
