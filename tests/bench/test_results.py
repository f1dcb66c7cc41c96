"""Percentiles, saved runs and their tables."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from bench import results, table
from bench.figures import FIGURES, Value
from bench.percentiles import percentile
from bench.results import Run

LOAD = (0.5, 1.25)


def run_with(values: Mapping[str, float | None], *, quick: bool = False) -> Run:
    """Return a run with one measurement of each figure."""
    run = Run(commit="abc", date="2026-01-02T03:04:05+00:00", quick=quick, machine={"cores": 2})
    run.add({key: Value(value, "a remark") for key, value in values.items()}, load=LOAD)
    return run


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (1, 1), (50, 50), (95, 95), (99, 99), (100, 100)])
def test_percentiles_are_measured_values(percent: float, expected: float) -> None:
    assert percentile(list(range(100, 0, -1)), percent) == expected


def test_the_percentile_of_few_values_is_the_largest() -> None:
    assert (percentile([3, 1, 2], 99), percentile([7], 50)) == (3, 7)


def test_nothing_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_repeated_measurements_give_their_median() -> None:
    run = run_with({"path.rate": 10})
    for value in (40, 20):
        run.add({"path.rate": Value(value)}, load=LOAD)
    assert run.value_of("path.rate") == 20
    assert run.figures["path.rate"].load == [LOAD] * 3


def test_a_run_is_read_as_it_was_saved(tmp_path: Path) -> None:
    run = run_with({"path.rate": 10.5, "moves.ratio": None})
    path = run.save(tmp_path)
    assert results.load(path) == run
    assert results.saved(tmp_path) == [path]


def test_the_previous_value_is_the_latest_of_its_size() -> None:
    runs = [
        run_with({"path.rate": 1, "ledger.pairs": 7}),
        run_with({"path.rate": 2, "moves.ratio": None}),
        run_with({"path.rate": 3}, quick=True),
    ]
    assert results.previous_values(runs, quick=False) == {"path.rate": 2, "ledger.pairs": 7}


def test_a_table_shows_aim_value_previous_run_and_load() -> None:
    lines = table.of_run(
        run_with({"path.rate": 51.26, "path.web_cpu": 7, "moves.ratio": None}), {"path.rate": 12.5}
    )
    head, rule, rate, web, ratio = lines.splitlines()
    assert head.split() == ["figure", "aim", "this", "run", "previous", "load", "remark"]
    assert set(rule) == {"-", " "}
    assert rate.endswith("≥ 45   51.3 jobs/s ✓  12.5      0.5 1.2  a remark")
    assert "7.00 ms ✗" in web
    assert "≥ 0.5  -" in ratio


def test_a_comparison_shows_the_difference_in_percent() -> None:
    compared = table.of_two_runs(run_with({"path.rate": 10, "ledger.pairs": 5}), run_with({"path.rate": 25}))
    rate, pairs = compared.splitlines()[2:]
    assert rate.split()[-5:] == ["25.0", "jobs/s", "✗", "+150", "%"]
    assert pairs.split()[-3:] == ["5.00", "-", "-"]


def test_rows_are_in_the_order_of_the_registry() -> None:
    keys = list(FIGURES)
    shown = table.of_run(run_with(dict.fromkeys(reversed(keys), 1.0)), {})
    assert [line.split("  ")[0] for line in shown.splitlines()[2:]] == [FIGURES[key].title for key in keys]
