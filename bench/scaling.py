"""One job on many slots of one worker: the share of the slots' time in which simulators work.

That is T1 / (n · Tn), where T1 is the time that all simulators slept and Tn is the time of the job on n slots. The
simulator sleeps for each fight, so a few cores can run many slots.
"""

import gzip
import json

from bench import processes
from bench.accounts import open_keys
from bench.callers import Caller
from bench.figures import ONE_PASS, STAGES, Value, Values
from bench.lab import LocalStack
from billing.models import Plan
from jobs.models import Artifact, Job

SETS, QUICK_SETS = 1_000, 200
WARM_UP_SETS = 20
# 0.3 s for each profileset, at 0.1 ms for each fight
ITERATIONS = 3_000
# Ten hours of simulator time
MAX_CREDITS = 1_200_000


def measure(stack: LocalStack, *, quick: bool) -> Values:
    """Run the same job on several numbers of slots, in one pass and in stages."""
    sets, caller = QUICK_SETS if quick else SETS, Caller(stack.url, open_keys(1)[0])
    Plan.objects.filter(name="bench").update(max_credits_per_job=MAX_CREDITS)
    # The time of a profileset is then known.
    _efficiency(stack, caller, slots=1, sets=WARM_UP_SETS, staged=False)
    one_pass = {
        f"scaling.one_pass_{slots}": _efficiency(stack, caller, slots=slots, sets=sets, staged=False)
        for slots in ONE_PASS
    }
    return one_pass | {
        f"scaling.stages_{slots}": _efficiency(stack, caller, slots=slots, sets=sets, staged=True)
        for slots in STAGES
    }


def profile(count: int, *, iterations: int | None) -> str:
    """Return a profile whose best profileset is `set0`. Without `iterations`, it has the default precision."""
    numbers = f"iterations={iterations}" if iterations else ""
    lines = (f'profileset."set{number}"+=trinket1=stone,id={number},ilevel=600' for number in range(count))
    return "\n".join(['mage="Sleeper"', "level=80", "spec=frost", numbers, *lines, ""])


def _efficiency(stack: LocalStack, caller: Caller, *, slots: int, sets: int, staged: bool) -> Value:
    """Run a job on `slots` slots; return the share of their time in which simulators slept."""
    Plan.objects.filter(name="bench").update(max_parallel_slots=slots)
    before = processes.cpu_seconds(stack.supervisor)
    text = profile(sets, iterations=None if staged else ITERATIONS)
    job_id = caller.submit(text, multiStage=staged)
    stack.drain()
    cpu = sum(processes.spent(before, processes.cpu_seconds(stack.supervisor)).values())
    job = Job.objects.get(pk=job_id)
    assert job.started_at, job.status_reason
    assert job.completed_at, job.status_reason
    assert job.status == "completed", job.status_reason
    seconds, shards = (job.completed_at - job.started_at).total_seconds(), job.runs.count()
    return Value(
        _slept_seconds(stack, job) / (slots * seconds),
        f"{sets:,} profilesets, {seconds:.1f} s, {shards} shards, {1000 * cpu / shards:.0f} CPU ms each",
    )


def _slept_seconds(stack: LocalStack, job: Job) -> float:
    """Return how long the job's simulators slept, according to the merged report of each stage."""
    seconds = 0.0
    # The report of a job in stages has the times of its last stage.
    for report in Artifact.objects.filter(job=job, kind="json_report", stage__isnull=not job.multi_stage):
        with gzip.open(stack.folder / "files" / "artifacts" / report.storage_name) as stream:
            seconds += json.load(stream)["sim"]["statistics"]["elapsed_time_seconds"]
    return seconds
