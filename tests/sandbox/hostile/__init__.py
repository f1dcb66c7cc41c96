"""Simulators that misbehave, and a few ordinary ones. `Bench` copies this package into a build's folder.

A simulator is run as `simulator BEHAVIOUR [ARGUMENT…]`; a behaviour is a function in one of the modules.
"""

import sys

from tests.sandbox.hostile import escapes, exhaustion, ordinary


def main() -> None:
    """Run the behaviour that the command line names."""
    _, behaviour, *arguments = sys.argv
    functions = vars(ordinary) | vars(exhaustion) | vars(escapes)
    functions[behaviour](*arguments)
