"""Output of the hostile simulators."""

import sys


def print_line(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def attempt(what: str, action: object) -> None:
    """Print whether a forbidden action worked."""
    assert callable(action)
    try:
        result = action()
    except OSError as error:
        print_line(what, "refused", error.errno)
    else:
        print_line(what, "WORKED", result)
