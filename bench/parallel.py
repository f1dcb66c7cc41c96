"""The built-in simulator on workers with one thread each: `python -m bench.parallel` compares one slot with two.

Needs two idle cores; 20 runs take about 15 minutes. A profileset's two means agree if they differ by at most
1.96 * √(s1² + s2²), where s1 and s2 are their standard errors. Of 100 profilesets, 95 are expected to agree.
"""

import argparse
import json
import math
import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from bench import machine
from bench.local import LocalStack, local_stack, second_worker
from simc.report_reader import read_report
from simc.reports import Report

RUNS = 20
SETS = 100
# 20 to 30 seconds on one thread
ITERATIONS = 12_000
# Profiles with includes run as one process.
ACTOR = machine.ROOT / "minisim" / "profiles" / "frost_mage.simc"
WARM_UP_ITERATIONS = 2_000
WARM_UPS = 5
ESTIMATOR = 1.96
MAX_REPORT_BYTES = 1 << 26
MAX_RATIO, MIN_WITHIN, MAX_BILLED_DIFFERENCE = 0.55, 93, 0.03
JOB = """
    SELECT status, extract(epoch FROM completed_at - started_at)::float8, credits_consumed, slots_used,
        (SELECT sum(cpu_ms) FROM jobs_run WHERE job_id = jobs_job.id)::float8 / 1000, status_reason
    FROM jobs_job WHERE id = %s
"""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One job: its seconds from start to end, its simulators' CPU seconds, credits, slots and report."""

    seconds: float
    credits: int
    cpu_seconds: float
    slots_used: int
    report: Report
    document: Mapping[str, Any]

    @property
    def winner(self) -> str:
        """Return the name of the profileset with the highest mean."""
        return max(self.report.profilesets, key=lambda entry: entry.statistics.mean).name


@dataclass(frozen=True)
class Pair:
    """The same job on one slot and on two."""

    one: Run
    two: Run

    @property
    def within(self) -> int:
        """Return how many profilesets have means that agree."""
        return agreeing(self.one.report, self.two.report)

    @property
    def billed_difference(self) -> float:
        """Return the relative difference of the bills."""
        return abs(self.two.credits / self.one.credits - 1)


def agreeing(one: Report, two: Report) -> int:
    """Return how many profilesets of two reports have means that agree."""
    first = {entry.name: entry.statistics for entry in one.profilesets}
    pairs = [(first[entry.name], entry.statistics) for entry in two.profilesets if entry.name in first]
    return sum(abs(a.mean - b.mean) <= ESTIMATOR * math.hypot(a.mean_stddev, b.mean_stddev) for a, b in pairs)


def different_fields(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[str]:
    """Return the fields of actors and profilesets that differ between two documents, matched by name."""
    first, second = _entries(one), _entries(two)
    found = []
    for name in sorted(first.keys() | second.keys()):
        left, right = first.get(name, {}), second.get(name, {})
        fields = sorted(left.keys() | right.keys())
        found += [f"{name}: {field}" for field in fields if left.get(field) != right.get(field)]
    return found


def _entries(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return a report's actors and profilesets by kind and name."""
    sim = document["sim"]
    kinds = {"actor": sim["players"], "profileset": sim["profilesets"]["results"]}
    return {f"{kind} {entry['name']}": entry for kind, entries in kinds.items() for entry in entries}


def profile(*, iterations: int, deterministic: bool = False) -> str:
    """Return a profile with many trinkets, one of which is clearly the best."""
    draw = random.Random(13)  # noqa: S311 - repeatable, not secret
    levels = [720, *(draw.randint(600, 690) for _ in range(SETS - 1))]
    lines = (
        f'profileset."Trinket {number}"+=trinket1=stone,id={930_000 + number},ilevel={level}'
        for number, level in enumerate(levels)
    )
    numbers = [f"iterations={iterations}", *(["deterministic=1"] if deterministic else [])]
    return "\n".join([ACTOR.read_text(), *numbers, *lines, ""])


@contextmanager
def two_workers() -> Iterator[LocalStack]:
    """Run a stack with two simulation workers of one slot each during the block."""
    with local_stack(accounts=1, simulator=None, SIM_SLOTS="1") as stack:
        stack.set_plan(vcpu_per_job=1)
        with second_worker(stack, slots=1):
            _warm_up(stack)
            yield stack


def _warm_up(stack: LocalStack) -> None:
    """Run short jobs until one uses both workers. The time of a profileset is then known."""
    text = profile(iterations=WARM_UP_ITERATIONS)
    used = (run(stack, text, slots=2).slots_used for _ in range(WARM_UPS))
    assert 2 in used, "the second worker does not help"


def run(stack: LocalStack, text: str, *, slots: int) -> Run:
    """Run a job on up to `slots` slots."""
    stack.set_plan(max_parallel_slots=slots)
    job_id = stack.run_job(text)
    row = stack.database.execute(JOB, [job_id]).fetchone()
    assert row is not None
    assert row[0] == "completed", f"job {job_id} did not complete: {row}"
    with stack.reports(job_id) as (stream,):
        report = read_report(stream, max_bytes=MAX_REPORT_BYTES)
        stream.seek(0)
        document = json.load(stream)
    return Run(
        seconds=row[1], credits=row[2], slots_used=row[3], cpu_seconds=row[4], report=report, document=document
    )


def figures(pairs: list[Pair], differences: list[str]) -> dict[str, str]:
    """Return the figures of all pairs by title."""
    ones, twos = [pair.one.seconds for pair in pairs], [pair.two.seconds for pair in pairs]
    ratio, within = median(twos) / median(ones), fmean(pair.within for pair in pairs)
    billed = sum(pair.two.credits for pair in pairs) / sum(pair.one.credits for pair in pairs) - 1
    cpu = sum(pair.two.cpu_seconds for pair in pairs) / sum(pair.one.cpu_seconds for pair in pairs) - 1
    same = sum(pair.one.winner == pair.two.winner for pair in pairs)
    return {
        "wall, one slot": f"{median(ones):.1f} s ({min(ones):.1f} to {max(ones):.1f})",
        "wall, two slots": f"{median(twos):.1f} s ({min(twos):.1f} to {max(twos):.1f})",
        f"wall, two / one, aim ≤ {MAX_RATIO}": f"{ratio:.3f} {_mark(is_met=ratio <= MAX_RATIO)}",
        "same winner": f"{same} of {len(pairs)} {_mark(is_met=same == len(pairs))}",
        f"means that agree, aim ≥ {MIN_WITHIN} of {SETS}": (
            f"{within:.1f} (at least {min(pair.within for pair in pairs)}) {_mark(is_met=within >= MIN_WITHIN)}"
        ),
        f"billed, two / one, aim ± {MAX_BILLED_DIFFERENCE:.0%}": (
            f"{billed:+.1%} (single pairs: up to {max(pair.billed_difference for pair in pairs):.1%})"
            f" {_mark(is_met=abs(billed) <= MAX_BILLED_DIFFERENCE)}"
        ),
        "simulators' CPU, two / one": f"{cpu:+.1%}",
        "deterministic=1, equal by name": "; ".join(differences[:3]) or "every field ✓",
    }


def _mark(*, is_met: bool) -> str:
    return "✓" if is_met else "✗"


def measured(*, runs: int, iterations: int) -> dict[str, str]:
    """Run all pairs, and return the figures."""
    with two_workers() as stack:
        pairs = []
        for number in range(runs):
            print(f"run {number + 1}/{runs} …", file=sys.stderr, flush=True)
            text = profile(iterations=iterations)
            pairs.append(Pair(run(stack, text, slots=1), run(stack, text, slots=2)))
        text = profile(iterations=WARM_UP_ITERATIONS, deterministic=True)
        one, two = run(stack, text, slots=1), run(stack, text, slots=2)
    assert two.slots_used == 2, "the deterministic job ran on one slot"
    return figures(pairs, different_fields(one.document, two.document))


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.parallel", description="Compare one slot with two.")
    parser.add_argument("--runs", type=int, default=RUNS, help="number of pairs of runs (%(default)s)")
    parser.add_argument(
        "--iterations", type=int, default=ITERATIONS, help="iterations of each profileset (%(default)s)"
    )
    arguments = parser.parse_args()
    machine.clean_up_when_terminated()
    rows = measured(runs=arguments.runs, iterations=arguments.iterations)
    sys.stdout.writelines(f"{name:<38}{figure}\n" for name, figure in rows.items())


if __name__ == "__main__":
    main()
