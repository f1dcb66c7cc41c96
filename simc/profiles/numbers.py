"""Numbers as the simulator reads them, and those that end a simulation: the limits, the defaults, and what applies.

C++'s `stoi` and `stod` ignore trailing characters (`docs/reference/simulator-command-line.md#order-and-values`).
"""

import math
import re
from dataclasses import dataclass

from simc.characters import visible
from simc.profiles.policy import AllowedOption

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


# The simulator's own numbers, for a profile without iterations; errors are in percent of the mean.
DEFAULT_ITERATIONS = 1_000_000
DEFAULT_TARGET_ERROR = 0.2
SCALE_FACTORS_TARGET_ERROR = 0.05
SHOWN_CHARACTERS = 40


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The platform's limits: the maximum of iterations, and the minimum target error in percent."""

    iterations: int
    target_error: float


@dataclass(frozen=True, kw_only=True)
class Clamp:
    """A number beyond the platform's limits, and the number that applies instead, for one profileset or for all."""

    kind: str
    name: str
    line: int
    requested: int | float | str
    applied: int | float
    profileset: str | None

    @property
    def message(self) -> str:
        """Return a sentence for people."""
        whose = "" if self.profileset is None else " for one profileset"
        return (
            f"{self.name}={visible(str(self.requested))} is outside the service's limits. "
            f"The job uses {self.applied} instead{whose}."
        )

    @property
    def directive(self) -> str:
        """Return the line that applies the limit if it is appended to the profile."""
        option = f"{self.name}={self.applied}"
        return option if self.profileset is None else f'profileset."{self.profileset}"+={option}'


@dataclass(frozen=True, kw_only=True)
class Precision:
    """When a simulation ends: after `iterations`, or at a target error in percent of the mean, if it is not 0.

    Both are always written: a number that is missing would be inherited.
    """

    iterations: int
    target_error: float

    @property
    def options(self) -> tuple[str, str]:
        return f"iterations={self.iterations}", f"target_error={self.target_error or 0}"

    @property
    def lines(self) -> str:
        """Return the options of the base, in lines."""
        return "\n".join(self.options)


def effective(*, iterations: str, target_error: str, scale_factors: bool, bounds: Bounds) -> Precision:
    """Return the numbers that apply to written ones, which are empty if there are none, within the limits.

    Without iterations, the simulator uses its defaults, to which the limits apply too
    (`docs/reference/simulator-command-line.md#iterations-and-errors`).
    """
    count = read_integer(iterations) or 0
    error = read_number(target_error) or 0.0
    if count <= 0:
        count = DEFAULT_ITERATIONS
        if error <= 0:
            error = SCALE_FACTORS_TARGET_ERROR if scale_factors else DEFAULT_TARGET_ERROR
    # Zero or less disables the target. A value that is not a number (NaN) would never be reached: as the second
    # argument, it loses every comparison.
    within = 0.0 if error <= 0 else max(bounds.target_error, error)
    return Precision(iterations=min(count, bounds.iterations), target_error=within)


def clamp_of(option: AllowedOption, bounds: Bounds) -> Clamp | None:
    """Return the clamp of one number, or None if it is within the limits or not a number."""
    requested: float | None
    applied: float
    if option.name == "iterations":
        kind, requested, applied = "iterations_clamped", read_integer(option.value), bounds.iterations
        is_within = requested is None or requested <= applied
    else:
        kind, requested, applied = "target_error_floored", read_number(option.value), bounds.target_error
        # Zero or less disables the target. A value that is not a number (NaN) would never be reached.
        is_within = requested is None or requested <= 0 or requested >= applied
    if is_within or requested is None:
        return None
    return Clamp(
        kind=kind,
        name=option.name or "",
        line=option.line,
        # A number that JSON cannot represent is given as it was written.
        requested=requested if math.isfinite(requested) else option.value[:SHOWN_CHARACTERS],
        applied=applied,
        profileset=option.profileset,
    )
