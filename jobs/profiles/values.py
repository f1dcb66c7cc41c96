"""Numbers as the simulator reads them: C++'s `stoi` and `stod`, trailing junk and all (simulator-cli, 1.6)."""

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
    """Return what `stoi` makes of a text, 0 for an empty one; None where the simulator stops with an error."""
    if not text:
        return 0
    found = _INTEGER.match(text)
    if found is None or len(found[2]) > MAX_DIGITS:
        return None
    number = int(found[1] + found[2])
    return number if -LARGEST_INTEGER - 1 <= number <= LARGEST_INTEGER else None


def read_number(text: str) -> float | None:
    """Return what `stod` makes of a text, 0 for an empty one; None where the simulator stops with an error."""
    if not text:
        return 0.0
    try:
        if found := _HEXADECIMAL.match(text):
            return float.fromhex(found[1])
        found = _DECIMAL.match(text)
        if found is None:
            word = _WORD.match(text)
            return float(word[1]) if word else None
        number = float(found[1])
    except OverflowError:
        return None
    # A written number that overflows is an error to the simulator; only the word may mean infinity.
    return number if abs(number) != float("inf") else None
