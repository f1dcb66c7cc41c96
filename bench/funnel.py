"""Cost of jobs in stages and how often they lose the best profileset: ten thousand trials and three real runs."""

import random
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench import trials
from bench.simulator import EXECUTABLE
from jobs.planning.multistage import StagePlan, beaten, plan, replicates, stage_text
from jobs.planning.replicates import pooled, widening
from simc import command
from simc.profiles.analysis import analyse
from simc.profiles.numbers import Bounds
from simc.profiles.policy import Rules
from simc.report_reader import read_report
from simc.reports import Profileset, Report

TRIALS = 10_000
# Shift of a run's mean by its seed, in reported errors.
OFFSETS, OFFSET_TRIALS = (1, 2, 7), 1_000
PROFILES = ("frost_mage", "fury_warrior", "unholy_death_knight")
PROFILESETS = 60
BOUNDS = Bounds(iterations=250_000, target_error=0.01)
MAX_REPORT_BYTES = 1 << 20


@dataclass(frozen=True)
class Run:
    """The best profileset of a job, and the CPU seconds of its simulator processes."""

    winner: str
    seconds: float


def profile(base: str, *, seed: int) -> str:
    """Return a bundled profile with many trinkets to compare, one of which is clearly the best."""
    draw = random.Random(seed)  # noqa: S311 - repeatable, not secret
    levels = [draw.randint(640, 690) for _ in range(PROFILESETS - 1)]
    levels.insert(draw.randrange(PROFILESETS), 694)
    lines = (
        f'profileset."Trinket {number}"+=trinket1=stone,id={930_000 + number},ilevel={level}'
        for number, level in enumerate(levels)
    )
    return "\n".join([f"{base}.simc", "target_error=0.05", *lines, ""])


def simulate(text: str) -> tuple[Report, float]:
    """Run the built-in simulator once; return its report and CPU seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / command.PROFILE_NAME).write_text(text)
        arguments = command.arguments(threads=1, json_version=2, html=False)
        before = _children_seconds()
        subprocess.run([str(EXECUTABLE), *arguments], cwd=folder, stdout=subprocess.DEVNULL, check=True)
        seconds = _children_seconds() - before
        with (folder / command.REPORT_NAME).open("rb") as report:
            return read_report(report, max_bytes=MAX_REPORT_BYTES), seconds


def _children_seconds() -> float:
    """Return the CPU seconds of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def best(profilesets: list[Profileset]) -> str:
    """Return the name of the profileset with the highest mean."""
    return max(profilesets, key=lambda entry: entry.statistics.mean).name


def run(text: str, *, multi_stage: bool) -> Run:
    """Run a profile like a job, optionally in stages."""
    analysis = analyse(text, rules=Rules(bundled={f"{name}.simc" for name in PROFILES}), bounds=BOUNDS)
    chosen: StagePlan = plan(analysis, wanted=multi_stage, bounds=BOUNDS)
    assert chosen.enabled == multi_stage, chosen.reason
    culled: set[str] = set()
    seconds = 0.0
    for stage in chosen.stages:
        twice = replicates(stage, analysis, culled=culled)
        report, cpu_seconds = simulate(stage_text(stage, text, analysis, culled=culled, replicates=twice))
        seconds += cpu_seconds
        if not stage.is_last:
            culled |= beaten(pooled(report.profilesets, twice), widening=widening(report.profilesets, twice))
    return Run(best(list(report.profilesets)), seconds)


def main() -> None:
    drawn = trials.run(trials=TRIALS, seed=1)
    rows = {
        f"true best lost in {TRIALS:,} trials": f"{drawn.lost} ({drawn.lost / TRIALS:.2%})",
        "iterations of a single pass's": f"{drawn.share_of_single_pass:.1%}",
    }
    for offset in OFFSETS:
        drawn = trials.run(trials=OFFSET_TRIALS, seed=1, candidates=PROFILESETS, offset=offset)
        share = f"{drawn.share_of_single_pass:.1%} of a single pass"
        rows[f"lost, seeds shift {offset} errors"] = f"{drawn.lost} of {OFFSET_TRIALS:,}, {share}"
    for number, base in enumerate(PROFILES):
        text = profile(base, seed=number)
        staged, single = run(text, multi_stage=True), run(text, multi_stage=False)
        same = "the same winner" if staged.winner == single.winner else "ANOTHER WINNER"
        rows[f"{base}, {PROFILESETS} sets"] = f"{staged.seconds:.1f} of {single.seconds:.1f} CPU s, {same}"
    sys.stdout.writelines(f"{name:<34}{figure:>20}\n" for name, figure in rows.items())


if __name__ == "__main__":
    main()
