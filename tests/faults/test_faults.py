"""The service under faults: nothing is lost, nothing runs twice, nothing is paid twice, nothing stale is written."""

import os
from pathlib import Path

import pytest

from tests.billing.books import LONG
from tests.factories import BuildFactory, make_account, make_key
from tests.faults.invariants import orphans, simulators_left, violations
from tests.faults.orchestra import Orchestra, Score, Seen, make_fast_stand_in

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

JOBS = int(os.environ.get("FAULT_JOBS", "2000" if LONG else "40"))
SEED = int(os.environ.get("FAULT_SEED", "1"))


def play(score: Score, folder: Path) -> Seen:
    """Play a run with three accounts and one fast simulator."""
    script = make_fast_stand_in(folder)
    BuildFactory.create(executable=str(script), readable_paths=[str(folder)])
    for _ in range(3):
        make_key(make_account(max_active_jobs=100_000))
    seen = Orchestra(score, folder).play()
    assert simulators_left(script) == []
    return seen


def report(seen: Seen) -> None:
    """Print the figures of a run."""
    print(  # noqa: T201 - the figures of the proof
        f"seed {seen.score.seed}: {len(seen.accepted)} jobs in {seen.seconds:.0f} s, {sum(seen.fired.values())} faults, "
        f"cancels {dict(seen.cancels)}, refused {dict(seen.refused)}, {len(orphans())} orphaned files"
    )
    for (point, fault), count in sorted(seen.fired.items()):
        print(f"{count:5} {fault:9} {point}")  # noqa: T201


@pytest.mark.timeout(7200 if LONG else 120)
def test_nothing_is_lost_and_nothing_happens_twice(tmp_path: Path) -> None:
    seen = play(Score(jobs=JOBS, seed=SEED), tmp_path)
    report(seen)
    assert violations(seen) == []


EXPECTED = {
    "no fencing": "has a file of attempt|runs? .* was written after",
    "no lease": "is lost: it is",
    "announcement instead of claim": "was claimed at",
}
BROKEN = {
    "no fencing": Score(jobs=12, seed=1, faults=["pause"], roles=["worker"], points=["simulator ended"]),
}
