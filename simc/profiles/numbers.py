"""The numbers that end a simulation: the platform's limits, the simulator's defaults, and what applies."""

import math
from dataclasses import dataclass

from simc.characters import visible
from simc.profiles.policy import AllowedOption
from simc.profiles.values import read_integer, read_number

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


def uses_defaults(iterations: str) -> bool:
    """Return whether the simulator uses its defaults instead of this number of iterations, empty without one."""
    count = read_integer(iterations)
    return count is not None and count <= 0


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
    if option.name == "iterations":
        count = read_integer(option.value)
        if count is None or count <= bounds.iterations:
            return None
        return _clamp("iterations_clamped", option, count, bounds.iterations)
    error = read_number(option.value)
    # Zero or less disables the target. A value that is not a number (NaN) would never be reached.
    if error is None or error <= 0 or error >= bounds.target_error:
        return None
    return _clamp("target_error_floored", option, error, bounds.target_error)


def _clamp(kind: str, option: AllowedOption, requested: float, applied: float) -> Clamp:
    """Return the clamp of an option; a number that JSON cannot represent is given as it was written."""
    return Clamp(
        kind=kind,
        name=option.name or "",
        line=option.line,
        requested=requested if math.isfinite(requested) else option.value[:SHOWN_CHARACTERS],
        applied=applied,
        profileset=option.profileset,
    )
