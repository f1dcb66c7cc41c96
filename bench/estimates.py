"""Estimates of a dry run compared with what the jobs then take: `python -m bench.estimates`.

An account runs jobs as people do: several characters, precisions and numbers of profilesets, some in stages. Each
job is estimated right before it is submitted, from the jobs before it. The first ones are only history.
"""

import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.percentiles import percentile
from simservice_client import Client
from tests.stack import ROOT, running_stack

HISTORY, HELD_BACK = 20, 60
AIM_FACTOR, AIM_SHARE = 1.5, 0.8
PROFILES = sorted((ROOT / "minisim" / "profiles").glob("*.simc"))
PRECISIONS = ("iterations=300", "iterations=1000", "iterations=3000", "target_error=1", "target_error=0.5")
PROFILESETS = (0, 0, 3, 10, 25, 60)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A profile, and whether it runs in stages."""

    text: str
    in_stages: bool


def jobs(chance: random.Random) -> Iterator[Job]:
    """Yield jobs of an account without an end."""
    while True:
        count = chance.choice(PROFILESETS)
        lines = [chance.choice(PROFILES).read_text(), chance.choice(PRECISIONS)]
        lines += [f"profileset.{number}+=head=,id={number},ilevel={600 + number}" for number in range(count)]
        yield Job(text="\n".join(lines) + "\n", in_stages=count >= 4 and chance.random() < 1 / 3)


def factor(client: Client, job: Job) -> float:
    """Run a job and return how many times its seconds exceed the expected ones, or the other way round."""
    estimate = client.jobs.validate(job.text, multi_stage=job.in_stages).estimate
    result = client.jobs.run(job.text, multi_stage=job.in_stages)
    taken = (result.runtime.sim_duration_ms or 0) / 1000
    if estimate is None or not taken:
        return float("inf")
    return max(taken / estimate.sim_seconds.expected, estimate.sim_seconds.expected / taken)


def main(seed: int) -> int:
    """Print how far the estimates are off. Return 1 if fewer than the aim are close."""
    with tempfile.TemporaryDirectory() as data, running_stack(Path(data) / "stack") as stack:
        stack.lift_limits()
        with Client(stack.ready["url"], stack.ready["apiKey"]) as client:
            generated = jobs(random.Random(seed))  # noqa: S311 - not secret
            factors = [factor(client, next(generated)) for _ in range(HISTORY + HELD_BACK)][HISTORY:]
    share = sum(each <= AIM_FACTOR for each in factors) / len(factors)
    sys.stdout.write(
        f"{HELD_BACK} jobs after {HISTORY} others, seed {seed}: off by a factor of\n"
        f"{percentile(factors, 50):.2f} at the median, p80 {percentile(factors, 80):.2f}, max {max(factors):.2f}\n"
        f"within {AIM_FACTOR}: {share:.0%}; aim {AIM_SHARE:.0%}\n"
    )
    return int(share < AIM_SHARE)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
