"""Numbers as the simulator reads them, with C++'s `stoi` and `stod`.

Both ignore trailing characters (`docs/reference/simulator-command-line.md#order-and-values`).
"""

import re

_BLANKS = r"[ \t\n\v\f\r]*"
_INTEGER = re.compile(rf"{_BLANKS}([+-]?)0*([0-9]+)", re.ASCII)
_DECIMAL = re.compile(rf"{_BLANKS}([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)", re.ASCII)
_HEXADECIMAL = re.compile(
    rf"{_BLANKS}([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][+-]?[0-9]+)?)", re.ASCII
)
_WORD = re.compile(rf"{_BLANKS}([+-]?(?:inf|nan))", re.ASCII | re.IGNORECASE)
LARGEST_INTEGER = 2**31 - 1
MAX_DIGITS = len(str(LARGEST_INTEGER))


def read_integer(text: str) -> int | None:
    """Return the result of `stoi`, 0 for an empty text, or None if the simulator stops with an error."""
    if not text:
        return 0
    match = _INTEGER.match(text)
    if match is None or len(match[2]) > MAX_DIGITS:
        return None
    number = int(match[1] + match[2])
    return number if -LARGEST_INTEGER - 1 <= number <= LARGEST_INTEGER else None


def read_number(text: str) -> float | None:
    """Return the result of `stod`, 0 for an empty text, or None if the simulator stops with an error."""
    if not text:
        return 0.0
    try:
        if match := _HEXADECIMAL.match(text):
            return float.fromhex(match[1])
        match = _DECIMAL.match(text)
        if match is None:
            word = _WORD.match(text)
            return float(word[1]) if word else None
        number = float(match[1])
    except OverflowError:
        return None
    # A number that overflows is an error for the simulator; only `inf` means infinity.
    return number if abs(number) != float("inf") else None
