"""Values of options, read like C++'s `stoi` and `stod`.

See `docs/reference/simulator-command-line.md#order-and-values`.
"""

import math
import re

_INT = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_FLOAT = re.compile(r"[ \t\n\v\f\r]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)")
_MAX_NUMBER_LENGTH = 40


class SimulatorError(Exception):
    """An error that ends the run with an exit status; its message is printed after `Error: `."""

    def __init__(self, message: str, *, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def names_in(text: str) -> frozenset[str]:
    """Return the words of a text as a set; shorter than a literal set of strings."""
    return frozenset(text.split())


def percent(part: float, whole: float) -> float:
    """Return a part in percent of a whole; 0 if there is no whole, such as the damage of a run without any."""
    return 100 * part / whole if whole else 0.0


def to_int(text: str, bits: int = 32) -> int:
    """Return the leading integer of a text, 0 for an empty text. `1e4` is 1.

    Raises SimulatorError if there is none, or if it does not fit a signed integer of `bits` bits.
    """
    if not text:
        return 0
    match = _INT.match(text)
    if not match or len(match[1]) > _MAX_NUMBER_LENGTH or abs(int(match[1])) >= 2 ** (bits - 1):
        raise SimulatorError(f"Could not parse '{text}' as an integer")
    return int(match[1])


def to_uint64(text: str) -> int:
    """Return the leading integer of a text, from 0 to 2**64 - 1. Raises SimulatorError."""
    number = to_int(text, bits=65)
    if number < 0:
        raise SimulatorError(f"'{text}' is negative")
    return number


def to_float(text: str) -> float:
    """Return the leading number of a text, 0 for an empty text. Raises SimulatorError."""
    if not text:
        return 0.0
    match = _FLOAT.match(text)
    number = float(match[1]) if match else math.inf
    if not math.isfinite(number):
        raise SimulatorError(f"Could not parse '{text}' as a number")
    return number


def to_bool(text: str) -> bool:
    """Return whether a text is `1`. Raises SimulatorError for anything but `0` and `1`."""
    if text not in {"0", "1"}:
        raise SimulatorError("Acceptable values are '1' or '0'")
    return text == "1"
