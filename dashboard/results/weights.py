"""Stat weights of an actor as a table with bars, compared with one of the stats."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.results.options import Options
from dashboard.results.scale import Scale, rounded
from jobs.results.details import Weight, Weights

METRICS = {"dps": "DPS", "prioritydps": "priority DPS", "hps": "HPS", "dtps": "damage taken per second"}


@dataclass(frozen=True, kw_only=True)
class WeightRow:
    """A stat. `relative` and `margin` are multiples of the stat that the others are compared with.

    `bar` and `whisker` are paths in a picture of 1000 by 34. A row is `even` if its weight is within its error.
    """

    name: str
    weight: float
    error: float | None
    relative: float
    margin: float | None
    bar: str
    whisker: str
    even: bool


@dataclass(frozen=True, kw_only=True)
class WeightsView:
    """The weights of an actor. `choices` are links that compare with another stat."""

    rows: Sequence[WeightRow]
    zero: str
    reference: str
    metric: str
    normalized: bool
    has_errors: bool
    pawn: str
    choices: Sequence[dict[str, Any]]


def weights_of(weights: Weights | None, options: Options) -> WeightsView | None:
    """Return the weights for a page, or None if there are none."""
    known = [each for each in weights.stats if each.weight] if weights else []
    if weights is None or not known:
        return None
    # A weight within its error could be zero, and says nothing about the others.
    clear = [each for each in known if not _is_even(each)] or known[:1]
    reference = next((each for each in clear if each.stat == options.stat), clear[0])
    unit = abs(reference.weight or 1.0)
    ends = [((each.weight or 0.0) + side * (each.error or 0.0)) / unit for each in known for side in (-1, 1)]
    scale = rounded(min(0.0, *ends), max(0.0, *ends), count=4)
    return WeightsView(
        rows=[_row(each, unit, scale) for each in known],
        zero=f"M{scale.at(0.0)} 0V34",
        reference=reference.name or reference.stat,
        metric=METRICS.get(weights.metric.lower(), weights.metric),
        normalized=weights.normalized,
        has_errors=any(each.error is not None for each in known),
        pawn=weights.pawn,
        choices=[
            {
                "name": each.name or each.stat,
                "link": options.link(stat="" if each is clear[0] else each.stat),
                "is_current": each is reference,
            }
            for each in clear
        ],
    )


def _is_even(each: Weight) -> bool:
    return each.error is not None and abs(each.weight or 0.0) <= each.error


def _row(each: Weight, unit: float, scale: Scale) -> WeightRow:
    relative = (each.weight or 0.0) / unit
    margin = None if each.error is None else each.error / unit
    whisker = ""
    if margin is not None:
        low, high = scale.at(relative - margin), scale.at(relative + margin)
        whisker = f"M{low} 12V22M{low} 17H{high}M{high} 12V22"
    return WeightRow(
        name=each.name or each.stat,
        weight=each.weight or 0.0,
        error=each.error,
        relative=relative,
        margin=margin,
        bar=f"M{scale.at(0.0)} 17H{scale.at(relative)}",
        whisker=whisker,
        even=_is_even(each),
    )
