"""Reading a report uses bounded memory; each case runs in its own process."""

import json
import subprocess
import sys

import pytest

from tests.simc import merge_memory, stage_memory
from tests.simc.report_memory import CASES

pytestmark = pytest.mark.timeout(300)
MB = 1 << 20
OUTCOMES = {
    "10 actors": "10 actors, 0 profilesets",
    "most entries": "99999 actors, 99999 profilesets",
    "long name": "a string of more than 4 MB",
    "escaped quotes": "a string of more than 4 MB",
    "empty arrays": "contains no actors",
    "arrays as players": "not a list of objects",
    "nesting": "nested too deeply",
    "nested objects": "nested too deeply",
    "long number": "too many digits",
    "long numbers": "too many digits",
    "players": "names of its players are too long",
    "short names": "it has more than 100,000 players",
    "profilesets": "it has more than 100,000 results",
    "keys": "its sim is not an object",
    "repeated keys": "1 actors",
    "talents": "1 actors",
    "messages": "contains no actors",
    "different messages": "contains no actors",
    "invalid bytes": "actors",
    "abilities": "1 actors",
    "nested abilities": "1 actors",
    "pets": "1 actors",
    "long ability names": "12 actors",
    "largest details": "60 actors",
    "not a number": "not valid JSON",
    "infinity": "not valid JSON",
}

MERGED = {
    "130 shards": "10 actors, 5200 profilesets",
    "most names": "1 actors, 99999 profilesets",
    "equal names": "1 actors, 20000 profilesets",
    "long entry": "1 actors, 1 profilesets",
    "long field": "1 actors, 0 profilesets",
    "nesting": "nested too deeply",
}

STAGED = {
    "pairs": "1001 profilesets",
    "long entry": "1 profilesets",
    "most names": "99999 profilesets",
    "stages": "5200 profilesets",
}

Results = dict[str, tuple[int, str]]


def results_of(module: str) -> Results:
    """Return the growth and the outcome of each case of a module."""
    command = [sys.executable, "-m", f"tests.simc.{module}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    return {case: (grown, outcome) for case, grown, outcome in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def read() -> Results:
    return results_of("report_memory")


@pytest.fixture(scope="module")
def merged() -> Results:
    return results_of("merge_memory")


@pytest.mark.parametrize("case", CASES)
def test_reading_a_report_uses_bounded_memory(case: str, read: Results) -> None:
    grown, outcome = read[case]
    assert OUTCOMES[case] in outcome
    assert grown < (200 if case == "most entries" else 50) * MB


@pytest.mark.parametrize("case", merge_memory.CASES)
def test_merging_reports_uses_bounded_memory(case: str, merged: Results) -> None:
    grown, outcome = merged[case]
    assert MERGED[case] in outcome
    assert grown < (100 if case == "most names" else 60) * MB


@pytest.fixture(scope="module")
def staged() -> Results:
    return results_of("stage_memory")


@pytest.mark.parametrize("case", stage_memory.CASES)
def test_reports_of_stages_use_bounded_memory(case: str, staged: Results) -> None:
    grown, outcome = staged[case]
    assert STAGED[case] in outcome
    assert grown < 100 * MB
