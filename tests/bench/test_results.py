"""The registry of figures, percentiles, saved runs and the table."""

import importlib
from pathlib import Path

import pytest

from bench import results
from bench.figures import SCENARIOS, Figure, Value, percentile
from bench.results import Run

FIGURES = [figure for figures in SCENARIOS.values() for figure in figures]
LOAD = (0.5, 1.25)
# Runs with a report of their own
PROGRAMS = ("pressure", "recovery", "soak")


def run_with(*, quick: bool = False, **values: float) -> Run:
    """Return a run with one measurement of each figure; `_` stands for the dot in its key."""
    run = Run(commit="abc", date="2026-01-02T03:04:05+00:00", quick=quick, machine="2 cores")
    run.add({key.replace("_", ".", 1): Value(value, "a remark") for key, value in values.items()}, load=LOAD)
    return run


def test_keys_and_titles_are_unique() -> None:
    assert len({figure.key for figure in FIGURES}) == len({figure.title for figure in FIGURES}) == len(FIGURES)


@pytest.mark.parametrize("name", [*SCENARIOS, *PROGRAMS])
def test_every_scenario_can_be_imported(name: str) -> None:
    module = importlib.import_module(f"bench.{name}")
    assert callable(module.main if name in PROGRAMS else module.measure)


def test_an_aim_includes_its_limit() -> None:
    floor, ceiling = Figure("a", "a", "/s", at_least=30), Figure("b", "b", "ms", at_most=25)
    assert [results.judged(floor, value) for value in (30, 29.9)] == ["30.0 /s ✓", "29.9 /s ✗"]
    assert [results.judged(ceiling, value) for value in (25, 25.1)] == ["25.0 ms ✓", "25.1 ms ✗"]


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (1, 1), (50, 50), (95, 95), (99, 99), (100, 100)])
def test_percentiles_are_measured_values(percent: float, expected: float) -> None:
    assert percentile(list(range(100, 0, -1)), percent) == expected


def test_the_percentile_of_few_values_is_the_largest() -> None:
    assert (percentile([3, 1, 2], 99), percentile([7], 50)) == (3, 7)


def test_a_run_is_read_as_it_was_saved(tmp_path: Path) -> None:
    run = run_with(path_rate=10.5)
    run.save(tmp_path)
    assert results.saved(tmp_path) == [run]


def test_the_previous_value_is_the_latest_of_its_size() -> None:
    runs = [run_with(path_rate=1, ledger_pairs=7), run_with(path_rate=2), run_with(path_rate=3, quick=True)]
    assert results.previous_values(runs, quick=False) == {"path.rate": 2, "ledger.pairs": 7}


def test_the_table_shows_aim_median_previous_value_and_load() -> None:
    run = run_with(slots_started=1234, path_web_cpu=7, path_rate=10)
    for value in (60, 51.26):
        run.add({"path.rate": Value(value, "a remark")}, load=LOAD)
    head, _, rate, web, slots = results.table(run, {"path.rate": 12.5}).splitlines()
    assert head.split() == ["figure", "aim", "this", "run", "previous", "load", "remark"]
    assert rate.endswith("≥ 45  51.3 jobs/s ✓  12.5      0.5 1.2 0.5 1.2 0.5 1.2  a remark")
    assert "≤ 6   7.00 ms ✗      -" in web
    assert "      1,234 ms       -" in slots
