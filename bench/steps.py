"""Where the time of one job goes: `python -m bench.steps` measures the steps and writes JSON and an SVG.

It measures the wall-clock time of each step of single jobs on idle slots, and then the CPU time of each program per
job while all slots are busy.
"""

import argparse
import json
import random
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import machine, results, steps_plot, whole_path
from bench.callers import Caller, submit_many
from bench.local import LocalStack, local_stack
from bench.percentiles import milliseconds, percentile

PLOT = machine.ROOT / "docs" / "explanation" / "performance-steps.svg"
WARM_UP = 200
SINGLE_JOBS = 300
LOAD_SECONDS, LOAD_JOBS = 60.0, 2_000
# Unix times of a job: its creation, claim, start, and the ends of its simulator and of the job itself. The stub
# simulator names its actor with the time of its start.
TIMES = """
    SELECT extract(epoch FROM created_at)::float8, extract(epoch FROM event.at)::float8,
        (summary->'mainActor'->>'name')::float8, extract(epoch FROM run.ended_at)::float8,
        extract(epoch FROM completed_at)::float8
    FROM jobs_job JOIN jobs_jobevent event ON event.job_id = jobs_job.id AND to_status = 'starting'
    JOIN jobs_run run ON run.job_id = jobs_job.id WHERE jobs_job.id = %s AND jobs_job.status = 'completed'
"""
STEPS = (
    "web: read, check and store the request",
    "web: announce the job; an idle slot wakes up and claims it",
    "worker: prepare the run and start the simulator",
    "simulator (does no work); the worker notices its end",
    "worker: store artifacts, settle, end the job",
)


def step_durations(stack: LocalStack) -> dict[str, list[float]]:
    """Return the seconds that each step of single jobs on idle slots took."""
    caller, submitted = Caller(stack.url, stack.keys[0]), []
    for _ in range(SINGLE_JOBS):
        started = time.time()
        submitted.append((started, caller.submit()))
        # Longer than a job, and random, so that submissions do not coincide with periodic tasks.
        time.sleep(random.uniform(0.1, 0.2))  # noqa: S311 - not secret
    stack.drain()
    rows = [[started, *_times(stack, job_id)] for started, job_id in submitted]
    return {name: [row[number + 1] - row[number] for row in rows] for number, name in enumerate(STEPS)}


def _times(stack: LocalStack, job_id: str) -> list[float]:
    row = stack.database.execute(TIMES, [job_id]).fetchone()
    assert row is not None, f"job {job_id} did not complete in one run"
    return list(row)


def program_costs(stack: LocalStack) -> dict[str, float]:
    """Return the CPU milliseconds per job of each program while all slots are busy, the largest first."""
    load = whole_path.sustained(stack, seconds=LOAD_SECONDS, jobs=LOAD_JOBS)
    stack.drain()
    costs = {name: load.cost(name) for name in load.cpu}
    return dict(sorted(costs.items(), key=lambda each: -each[1]))


def measure() -> dict[str, Any]:
    """Return the medians of the steps and the CPU time of the programs, in milliseconds."""
    before = machine.load()
    with local_stack(accounts=whole_path.CALLERS) as stack:
        submit_many(stack.url, stack.keys, count=WARM_UP)
        stack.drain()
        steps, costs = step_durations(stack), program_costs(stack)
    return {
        "commit": machine.commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.description(),
        "load": [before, machine.load()],
        "steps": {name: _p50_and_p99(each) for name, each in steps.items()},
        "cpu": {name: round(each, 2) for name, each in costs.items()},
    }


def _p50_and_p99(seconds: list[float]) -> list[float]:
    return [round(percentile(milliseconds(seconds), percent), 2) for percent in (50, 99)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.steps")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="draw an earlier measurement again")
    parser.add_argument("--plot", type=Path, default=PLOT, help="where to write the plot")
    arguments = parser.parse_args()
    machine.clean_up_when_terminated()
    measured = json.loads(arguments.draw.read_text()) if arguments.draw else measure()
    if not arguments.draw:
        print(results.save_measurement("steps", measured))
    arguments.plot.write_text(steps_plot.draw(measured))
    print(json.dumps({key: measured[key] for key in ("steps", "cpu")}, indent=1), arguments.plot, sep="\n")


if __name__ == "__main__":
    main()
