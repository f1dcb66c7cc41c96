"""`make bench`: measure the figures of `bench.figures`, or compare two saved runs."""

import argparse
import subprocess
import sys
from pathlib import Path

from bench import machine, results, scenario, table
from bench.figures import SCENARIOS, Scenario
from bench.results import Run


def main() -> int:
    arguments = _parse()
    machine.clean_up_when_terminated()
    if arguments.compare is not None:
        return _compare(arguments.compare)
    chosen = [each for each in SCENARIOS if not arguments.only or each.name in arguments.only]
    return _measure(chosen, quick=arguments.quick, repeat=arguments.repeat)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure how fast the service is.")
    names = [each.name for each in SCENARIOS]
    parser.add_argument("--quick", action="store_true", help="smaller samples: under three minutes")
    parser.add_argument("--repeat", type=int, default=1, help="repeat all measurements and show medians")
    parser.add_argument("--only", nargs="+", choices=names, help="measure only these scenarios")
    parser.add_argument(
        "--compare",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="measure nothing; compare two saved runs, by default the last two",
    )
    arguments = parser.parse_args()
    if arguments.compare is not None and len(arguments.compare) not in (0, 2):
        parser.error("--compare takes two files, or none")
    return arguments


def _compare(chosen: list[Path]) -> int:
    """Print the difference between two runs; return the exit status."""
    files = chosen or results.saved()[-2:]
    if len(files) < 2:
        print(f"There are no two runs in {results.FOLDER}. Run `make bench` first.", file=sys.stderr)
        return 1
    sys.stdout.write(table.of_two_runs(*map(results.load, files)))
    return 0


def _measure(chosen: list[Scenario], *, quick: bool, repeat: int) -> int:
    """Measure scenarios, save the run and print its table; return 1 if any scenario failed."""
    run, failed = Run.start(quick=quick), []
    previous = results.previous_values(map(results.load, results.saved()), quick=quick)
    for number in range(repeat):
        for each in chosen:
            print(f"{each.name} ({number + 1}/{repeat}) …", file=sys.stderr, flush=True)
            before = machine.load()
            try:
                run.add(scenario.run(each, quick=quick), load=(before, machine.load()))
            except subprocess.CalledProcessError as error:
                failed.append(f"{each.name}: {error}")
    path = run.save()
    sys.stdout.write(table.of_run(run, previous))
    print(f"{machine.description()['cores']} cores, commit {run.commit}, saved as {path}")
    print(*failed, sep="\n", end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
