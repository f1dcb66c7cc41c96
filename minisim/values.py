"""Words and numbers of the option language, read as leniently as C++'s stoi and stod do (simulator-cli, 1.6)."""

import math
import re

_INT = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_FLOAT = re.compile(r"[ \t\n\v\f\r]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)")
_LONGEST_NUMBER = 40


class SimulatorError(Exception):
    """Ends the run with exit status 1; its text is the message after `Error: `."""


def words(text: str) -> frozenset[str]:
    """The words of a text: a long set of names that reads like one."""
    return frozenset(text.split())


def to_int(text: str, bits: int = 32) -> int:
    """The leading integer of `text`, trailing junk ignored; 0 for an empty text. `1e4` is 1.

    Raises SimulatorError when there is none, or it does not fit a signed integer of `bits` bits.
    """
    if not text:
        return 0
    match = _INT.match(text)
    if not match or len(match[1]) > _LONGEST_NUMBER or abs(int(match[1])) >= 2 ** (bits - 1):
        raise SimulatorError(f"Could not parse '{text}' as an integer")
    return int(match[1])


def to_uint64(text: str) -> int:
    """As `to_int`, for seeds: 0 to 2**64 - 1."""
    number = to_int(text, bits=65)
    if number < 0:
        raise SimulatorError(f"'{text}' is negative")
    return number


def to_float(text: str) -> float:
    """The leading number of `text`, trailing junk ignored; 0 for an empty text. Raises SimulatorError."""
    if not text:
        return 0.0
    match = _FLOAT.match(text)
    number = float(match[1]) if match else math.inf
    if not math.isfinite(number):
        raise SimulatorError(f"Could not parse '{text}' as a number")
    return number


def to_bool(text: str) -> bool:
    """`0` or `1`, and nothing else. Raises SimulatorError."""
    if text not in {"0", "1"}:
        raise SimulatorError("Acceptable values are '1' or '0'")
    return text == "1"
