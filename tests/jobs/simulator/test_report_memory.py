"""Reading a report uses bounded memory; each case runs in a separate process."""

import subprocess
import sys

import pytest

from tests.jobs.simulator.report_memory import CASES

MB = 1 << 20
OUTCOMES = {
    "117 actors": "117 actors, 0 profilesets",
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
    "not a number": "not valid JSON",
    "infinity": "not valid JSON",
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_reading_a_report_uses_bounded_memory(case: str) -> None:
    module = "tests.jobs.simulator.report_memory"
    done = subprocess.run(
        [sys.executable, "-m", module, case], capture_output=True, text=True, check=True, timeout=90
    )
    grown, _, outcome = done.stdout.strip().partition(" ")
    assert OUTCOMES[case] in outcome
    assert int(grown) < (200 if case == "most entries" else 50) * MB
