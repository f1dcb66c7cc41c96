"""Options of plots, which simulate the profile again for each point of each stat.

See `docs/reference/simulator-command-line.md#stat-weights-and-plots`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from simc import stats
from simc.characters import visible

MAX_POINTS = 200
MAX_STEP = 100_000
# The simulator's own number
DEFAULT_POINTS = 20
SHOWN_NAME = 40
STATS, POINTS, STEP = "dps_plot_stat", "dps_plot_points", "dps_plot_step"
ITERATIONS, TARGET_ERROR = "dps_plot_iterations", "dps_plot_target_error"
ONE_SIDED = ("dps_plot_positive", "dps_plot_negative")
OPTIONS = frozenset({STATS, POINTS, STEP, ITERATIONS, TARGET_ERROR, *ONE_SIDED})
NOT_IN_PROFILESETS = "plots belong to the profile itself; a profileset cannot have its own"
_WHOLE = re.compile(r"[0-9]{1,9}")
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def problem_of(name: str, value: str) -> str | None:
    """Return why an option of plots must not run, or None. Only plain spellings of numbers are allowed."""
    if name not in OPTIONS:
        return f"the simulator would ignore it; write {name.rstrip('+').lower()}="
    if name == STATS:
        _, unknown = stats.listed(value)
        return f"it lists {visible(unknown[0][:SHOWN_NAME])}, which is not a stat" if unknown else None
    if name in ONE_SIDED:
        return None if value in ("0", "1") else "it must be 0 or 1"
    if name == POINTS:
        return None if _is_within(_WHOLE, value, 1, MAX_POINTS) else f"it must be from 1 to {MAX_POINTS}"
    if name == STEP:
        is_valid = _is_within(_DECIMAL, value, 0, MAX_STEP) and float(value) > 0
        return None if is_valid else f"it must be a number above 0 and at most {MAX_STEP:,}"
    pattern = _WHOLE if name == ITERATIONS else _DECIMAL
    return None if pattern.fullmatch(value) else "it must be a plain number"


def problem_beyond(name: str, value: str, *, iterations: int, target_error: float) -> str | None:
    """Return why a valid option exceeds the platform's limits, or None. Zero means the profile's own number."""
    if name == ITERATIONS and int(value) > iterations:
        return f"it must be at most {iterations:,}, the limit of iterations"
    if name == TARGET_ERROR and 0 < float(value) < target_error:
        return f"it must be at least {target_error:g}, the smallest target error"
    return None


def _is_within(pattern: re.Pattern[str], value: str, lowest: float, highest: float) -> bool:
    return pattern.fullmatch(value) is not None and lowest <= float(value) <= highest


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The simulations that plots need beside the profile's own: `points` in all.

    Numbers that are 0 are those of the profile.
    """

    points: int = 0
    iterations: int = 0
    target_error: float = 0.0


def plan_of(options: Mapping[str, str]) -> Plan:
    """Return the plan of plots from the last value of each option. All values are valid."""
    found, _ = stats.listed(options.get(STATS, ""))
    each = int(options.get(POINTS, DEFAULT_POINTS))
    if all(options.get(side, "0") == "0" for side in ONE_SIDED):
        # Half of them on each side. The point without a change is the profile's own result.
        each -= each % 2
    return Plan(
        points=len(found) * each,
        iterations=int(options.get(ITERATIONS, 0)),
        target_error=float(options.get(TARGET_ERROR, 0)),
    )
