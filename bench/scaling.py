"""One job on many slots: `python -m bench.scaling` measures how much sooner it ends, and what its shards cost.

The simulator sleeps for each fight, so a few cores can run many slots. A short job runs first, so the time of a
profileset is known. T1 is the total time that the job's simulators slept; `--slots 1` measures it.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from bench import machine, processes, stub
from bench.local import LocalStack, local_stack
from bench.percentiles import percentile
from bench.slot_time import SlotRun, SlotTime, divided
from bench.statement_log import Statement, logged
from bench.table import formatted
from simc import json_stream

SLOTS = (2, 4, 8, 16, 32)
SETS = 1_000
# 0.3 s for each profileset, at 0.1 ms for each fight
ITERATIONS = 3_000
WARM_UP_SETS = 20
IDLE_SECONDS = 5.0
LISTED = 12
# The efficiency to reach by number of slots, in one pass (False) and in stages (True)
AIMS = {False: {2: 0.9, 4: 0.9, 8: 0.9, 16: 0.9, 32: 0.8}, True: {2: 0.8, 4: 0.8, 8: 0.8, 16: 0.8}}
PARTS = ("starting", "between", "around", "tail", "outside")
# Credits for ten hours of simulator time
MAX_CREDITS = 1_200_000
JOB = """
    SELECT status, extract(epoch FROM started_at)::float8, extract(epoch FROM completed_at)::float8, status_reason
    FROM jobs_job WHERE id = %s
"""
RUNS = """
    SELECT stage, seat, extract(epoch FROM started_at)::float8, extract(epoch FROM ended_at)::float8
    FROM jobs_run WHERE job_id = %s
"""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The overhead of a job: its statements, and the CPU seconds of each program.

    `idle_statements` is the number of statements that an idle stack would have executed in the same time.
    """

    executed: Sequence[Statement]
    idle_statements: float
    cpu: dict[str, float]

    def claim_ms(self) -> list[float]:
        """Return the milliseconds of each claim of a shard in PostgreSQL, after the wait for the lock."""
        return [statement.ms for statement in self.executed if statement.name == "claim_shard"]

    def by_name(self) -> Counter[str]:
        """Return how often each statement was executed."""
        return Counter(statement.name for statement in self.executed)

    @property
    def statements(self) -> float:
        return max(0.0, len(self.executed) - self.idle_statements)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One job on `slots` slots: seconds from start to end, its number of shards, and where the time went."""

    slots: int
    staged: bool
    seconds: float
    shards: int
    time: SlotTime
    cost: Cost

    def listed(self, amounts: Mapping[str, float], *, factor: float = 1) -> str:
        """Return the largest amounts per shard as text."""
        largest = sorted(amounts.items(), key=itemgetter(1), reverse=True)[:LISTED]
        return ", ".join(f"{name} {factor * amount / self.shards:.1f}" for name, amount in largest)

    def row(self) -> list[str]:
        """Return the row of the table."""
        aim, claims = AIMS[self.staged].get(self.slots), self.cost.claim_ms() or [0.0]
        mark = "" if aim is None else f" {'✓' if self.time.efficiency >= aim else '✗'}"
        return [
            str(self.slots),
            f"{self.seconds:.1f}",
            f"{self.time.simulating:.1f}",
            f"{self.time.efficiency:.3f}{mark}",
            "" if aim is None else f"≥ {aim}",
            *(f"{self.time.percent(part):.1f}" for part in PARTS),
            str(self.shards),
            f"{self.cost.statements / self.shards:.1f}",
            f"{percentile(claims, 50):.2f}, {percentile(claims, 99):.2f}",
            f"{1000 * sum(self.cost.cpu.values()) / self.shards:.0f}",
        ]


HEADER = (
    "slots",
    "s",
    "T1 s",
    "T1/(n·Tn)",
    "aim",
    *(f"{part} %" for part in PARTS),
    "shards",
    "statements/shard",
    "claim p50, p99 ms",
    "CPU ms/shard",
)


def profile(count: int, *, staged: bool) -> str:
    """Return a profile whose best profileset is `set0`. If it runs in stages, it has the default precision."""
    numbers = "" if staged else f"iterations={ITERATIONS}"
    lines = (f'profileset."set{number}"+=trinket1=stone,id={number},ilevel=600' for number in range(count))
    return "\n".join(['mage="Sleeper"', "level=80", "spec=frost", numbers, *lines, ""])


def measure(slots: int, *, sets: int, staged: bool) -> Measured:
    """Run the job on a new stack with this number of slots, all in one worker process."""
    with local_stack(accounts=1, simulator=stub.build_sleeper, SIM_SLOTS=str(slots)) as stack:
        stack.set_plan(max_parallel_slots=slots, max_credits_per_job=MAX_CREDITS)
        stack.run_job(profile(WARM_UP_SETS, staged=False))
        idle_rate = _idle_rate(stack)
        cpu, started = processes.cpu_seconds(stack.supervisor), time.monotonic()
        with logged(stack) as executed:
            job_id = stack.run_job(profile(sets, staged=staged), multi_stage=staged)
            seconds = time.monotonic() - started
        cost = Cost(
            executed=executed,
            idle_statements=idle_rate * seconds,
            cpu=processes.spent(cpu, processes.cpu_seconds(stack.supervisor)),
        )
        return _measured(stack, job_id, cost, slots=slots, staged=staged)


def _idle_rate(stack: LocalStack) -> float:
    """Return how many statements an idle stack executes per second."""
    with logged(stack) as executed:
        time.sleep(IDLE_SECONDS)
    return len(executed) / IDLE_SECONDS


def _measured(stack: LocalStack, job_id: int, cost: Cost, *, slots: int, staged: bool) -> Measured:
    row = stack.database.execute(JOB, [job_id]).fetchone()
    assert row is not None
    assert row[0] == "completed", f"job {job_id} did not complete: {row}"
    runs = [
        SlotRun(stage=stage, seat=seat or 0, started=started, ended=ended)
        for stage, seat, started, ended in stack.database.execute(RUNS, [job_id])
    ]
    started, ended = row[1], row[2]
    return Measured(
        slots=slots,
        staged=staged,
        seconds=ended - started,
        shards=len(runs),
        time=divided(runs, slots=slots, started=started, ended=ended, simulating=_slept_seconds(stack, job_id)),
        cost=cost,
    )


def _slept_seconds(stack: LocalStack, job_id: int) -> float:
    """Return how long the job's simulators slept, according to the merged reports."""
    shape: Mapping[str, json_stream.Shape] = {"sim": {"statistics": {"elapsed_time_seconds": None}}}
    with stack.reports(job_id) as reports:
        documents = [json_stream.read(report, shape, max_bytes=1 << 30) for report in reports]
    return float(sum(document["sim"]["statistics"]["elapsed_time_seconds"] for document in documents))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.scaling", description="Measure one job on many slots.")
    parser.add_argument("--slots", type=_numbers, default=SLOTS, help="numbers of slots (2,4,8,16,32)")
    parser.add_argument("--sets", type=int, default=SETS, help="number of profilesets (%(default)s)")
    parser.add_argument("--staged", action="store_true", help="run in stages, to a target error of 0.05 percent")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    arguments = _parse()
    machine.clean_up_when_terminated()
    rows = []
    for slots in arguments.slots:
        print(f"{slots} slots …", file=sys.stderr, flush=True)
        rows.append(measure(slots, sets=arguments.sets, staged=arguments.staged))
    print(f"{arguments.sets:,} profilesets {'in stages' if arguments.staged else 'in one pass'},", end=" ")
    print(f"after a warm-up job of {WARM_UP_SETS} profilesets; {machine.description()['cores']} cores")
    sys.stdout.write(formatted([HEADER, *(measured.row() for measured in rows)]))
    for measured in rows:
        print(f"{measured.slots} slots, CPU ms/shard: {measured.listed(measured.cost.cpu, factor=1000)}")
        print(f"{measured.slots} slots, statements/shard: {measured.listed(measured.cost.by_name())}")


if __name__ == "__main__":
    main()
