"""Output of the hostile simulators."""

import sys


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def attempt(what: str, action: object) -> None:
    """Print whether a forbidden thing worked."""
    assert callable(action)
    try:
        found = action()
    except OSError as error:
        say(what, "refused", error.errno)
    else:
        say(what, "WORKED", found)
