"""Measure one scenario: `python -m bench.scenario NAME [--quick]` prints its values as one line of JSON.

Each scenario needs its own process, because Django can be set up for one database per process only.
"""

import argparse
import importlib
import json
import sys

from bench.figures import SCENARIOS, Scenario, Value, Values
from bench.machine import clean_up_when_terminated, output_of

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def run(scenario: Scenario, *, quick: bool) -> Values:
    """Measure a scenario in a new process. Raises CalledProcessError if it fails."""
    output = output_of("bench.scenario", scenario.name, *(["--quick"] if quick else []))
    values = json.loads(output.splitlines()[-1])
    return {key: Value(*value) for key, value in values.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.scenario")
    parser.add_argument("name", choices=BY_NAME)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    clean_up_when_terminated()
    module, _, function = BY_NAME[arguments.name].function.partition(":")
    values = getattr(importlib.import_module(module), function)(quick=arguments.quick)
    sys.stdout.write(json.dumps(values) + "\n")


if __name__ == "__main__":
    main()
