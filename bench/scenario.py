"""Measure one scenario: `python -m bench.scenario NAME [--quick]` prints its values as one line of JSON.

Each scenario has its own process and lab, because Django can be set up for one database per process only. The
scenario's module uses models, so it is imported when the lab runs.
"""

import importlib
import json
import sys

from bench.lab import SLOTS, clean_up_when_terminated, local_stack


def main(name: str, *, quick: bool) -> None:
    clean_up_when_terminated()
    with local_stack(slots=32 if name == "scaling" else SLOTS) as stack:
        values = importlib.import_module(f"bench.{name}").measure(stack, quick=quick)
    print(json.dumps(values))


if __name__ == "__main__":
    main(sys.argv[1], quick="--quick" in sys.argv)
