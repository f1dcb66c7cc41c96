"""`make bench`: measure scenarios, print one table and save the figures."""

import argparse
import json
import os
import subprocess
import sys

from bench import results
from bench.figures import SCENARIOS, Value, Values
from bench.lab import clean_up_when_terminated
from bench.results import Run


def main() -> int:
    """Measure scenarios. Return 1 if any of them failed."""
    arguments = _parse()
    clean_up_when_terminated()
    run, failed = Run.start(quick=arguments.quick), []
    previous = results.previous_values(results.saved(), quick=arguments.quick)
    for number in range(arguments.repeat):
        for name in arguments.only:
            print(f"{name} ({number + 1}/{arguments.repeat}) …", file=sys.stderr, flush=True)
            before = os.getloadavg()[0]
            try:
                run.add(measure(name, quick=arguments.quick), load=(before, os.getloadavg()[0]))
            except subprocess.CalledProcessError as error:
                failed.append(f"{name} failed with status {error.returncode}")
    path = run.save()
    sys.stdout.write(results.table(run, previous))
    print(f"{run.machine}, commit {run.commit}, saved as {path}", *failed, sep="\n")
    return 1 if failed else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure how fast the service is.")
    parser.add_argument("--quick", action="store_true", help="smaller samples: eight minutes")
    parser.add_argument("--repeat", type=int, default=1, help="repeat all measurements and show medians")
    parser.add_argument(
        "--only", nargs="+", choices=SCENARIOS, default=list(SCENARIOS), help="measure only these scenarios"
    )
    return parser.parse_args()


def measure(name: str, *, quick: bool) -> Values:
    """Measure a scenario in a new process. Raises CalledProcessError if it fails."""
    command = [sys.executable, "-m", "bench.scenario", name, *(["--quick"] if quick else [])]
    # A new session, so that Ctrl-C interrupts only this process, which lets the other one clean up.
    with subprocess.Popen(
        command, cwd=results.ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate()
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return {key: Value(*value) for key, value in json.loads(output.splitlines()[-1]).items()}


if __name__ == "__main__":
    sys.exit(main())
