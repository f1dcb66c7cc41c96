"""Percentiles of measured durations."""

from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of the values do not exceed (nearest rank).

    Raises ValueError without values.
    """
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, int(rank) - 1)]


def milliseconds(seconds: Sequence[float]) -> list[float]:
    """Convert seconds to milliseconds."""
    return [each * 1000 for each in seconds]
