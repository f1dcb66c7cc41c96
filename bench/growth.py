"""Durations of the hot operations while the database grows: `python -m bench.growth` writes JSON and an SVG.

Each dimension is measured in a separate process with a new database. This takes about ten minutes, or two minutes
with --quick, which uses a tenth of the data.
"""

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import growth_plot, machine, results
from bench.figures import Value, Values
from bench.percentiles import milliseconds, percentile
from bench.stores import django_on_stores

BASE = {"waiting": 1_000, "stored": 10_000, "accounts": 100, "endpoints": 50}
QUICK_DIVISOR = 10
FACTORS = (1, 10, 100)
TIMES, RARE_TIMES = 60, 15
PLOT = machine.ROOT / "docs" / "explanation" / "performance-growth.svg"
WAITING, QUICK_WAITING = 1_000_000, 50_000
CLAIMS, QUICK_CLAIMS = 400, 100


def measure_long_queue(*, quick: bool) -> Values:
    """Return the slowest claims, and the duration of a sweep and a forecast, while a million jobs wait."""
    waiting = QUICK_WAITING if quick else WAITING
    with django_on_stores(MAX_QUEUE_LENGTH="0"):
        from bench.operations import Operations
        from bench.population import Population

        population = Population(waiting=waiting, stored=1_000, accounts=100, endpoints=1)
        operations = Operations(population.create())
        operations.claims(20)
        claims = milliseconds(operations.claims(QUICK_CLAIMS if quick else CLAIMS))
        rest = operations.measure(times=2, rare_times=5)
    note = f"{waiting:,} waiting jobs"
    return {
        "queue.claim_p99": Value(percentile(claims, 99), note),
        "queue.claim_p50": Value(percentile(claims, 50), note),
        "queue.sweep": Value(percentile(milliseconds(rest["sweep"]), 50), note),
        "queue.forecast": Value(percentile(milliseconds(rest["forecast"]), 50), note),
    }


def base(*, quick: bool) -> dict[str, int]:
    """Return the numbers of rows at factor 1."""
    return {name: count // QUICK_DIVISOR if quick else count for name, count in BASE.items()}


def measure_dimension(dimension: str, *, quick: bool) -> dict[str, dict[str, list[float]]]:
    """Return p50 and p99 in milliseconds of each operation, by factor."""
    with django_on_stores(MAX_QUEUE_LENGTH="0"):
        from bench.operations import Operations
        from bench.population import Population

        rows = {}
        for factor in FACTORS:
            operations = Operations(Population(**base(quick=quick)).times(dimension, factor).create())
            durations = operations.measure(times=TIMES, rare_times=RARE_TIMES)
            rows[str(factor)] = {name: _p50_and_p99(each) for name, each in durations.items()}
    return rows


def _p50_and_p99(seconds: list[float]) -> list[float]:
    return [round(percentile(milliseconds(seconds), percent), 3) for percent in (50, 99)]


def _in_new_process(dimension: str, *, quick: bool) -> dict[str, Any]:
    output = machine.output_of("bench.growth", "--dimension", dimension, *(["--quick"] if quick else []))
    measured: dict[str, Any] = json.loads(output.splitlines()[-1])
    return measured


def _measure_all(*, quick: bool) -> dict[str, Any]:
    """Measure every dimension; return the content of the JSON file."""
    before, dimensions = machine.load(), {}
    for dimension in BASE:
        print(f"{dimension} …", file=sys.stderr, flush=True)
        dimensions[dimension] = _in_new_process(dimension, quick=quick)
    return {
        "commit": machine.commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.description(),
        "load": [before, machine.load()],
        "base": base(quick=quick),
        "dimensions": dimensions,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.growth")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    parser.add_argument("--dimension", choices=BASE, help="measure one dimension and print its JSON")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="draw an earlier measurement again")
    parser.add_argument("--plot", type=Path, default=PLOT, help="where to write the plot")
    arguments = parser.parse_args()
    machine.clean_up_when_terminated()
    if arguments.dimension:
        sys.stdout.write(json.dumps(measure_dimension(arguments.dimension, quick=arguments.quick)) + "\n")
    elif arguments.draw:
        arguments.plot.write_text(growth_plot.draw(json.loads(arguments.draw.read_text())))
    else:
        measured = _measure_all(quick=arguments.quick)
        arguments.plot.write_text(growth_plot.draw(measured))
        print(results.save_measurement("growth", measured), arguments.plot, sep="\n")


if __name__ == "__main__":
    main()
