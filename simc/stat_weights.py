"""Stat weights of an actor: what one point of each stat is worth, with its error, and a string for the Pawn addon.

The simulator calls them scale factors. See `docs/reference/simulator-command-line.md#stat-weights-and-plots`.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from simc import report_values as values
from simc import stats
from simc.json_stream import Members, Shape
from simc.report_values import Bounded, kept_by, known

MAX_STATS = 50
_PAWN_NAME_LENGTH = 60
DPS = "dps"


class Factors(Bounded):
    """The numbers of an object by the stats' abbreviations."""

    def __init__(self) -> None:
        self.kept: dict[str, float] = {}

    def take(self, member: tuple[str, Any]) -> None:
        name, number = values.text(member[0]), values.signed(member[1])
        # Stats that were not simulated are zero.
        if name and number and (name in self.kept or len(self.kept) < MAX_STATS):
            self.kept[name] = number


OPTIONS: Shape = dict.fromkeys(("normalize_scale_factors", "scale_over"))
ACTOR: dict[str, Shape] = {"scale_factors": Members(Factors), "scale_deltas": Members(Factors)}


def raw(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the factors of an actor and the changes of its stats, or None if its entry has none."""
    factors, deltas = (kept_by(entry.get(key), Factors) for key in ACTOR)
    return {"factors": factors, "deltas": deltas} if factors else None


def finished(actor: Mapping[str, Any], *, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the weights of an actor from its details with `raw`, the largest first, or None if it has none.

    `options` are the report's `sim.options.scaling`, which can come after the actors.
    """
    if "weights" not in actor:
        return None
    factors, deltas = actor["weights"]["factors"], actor["weights"]["deltas"]
    metric = values.text(options.get("scale_over")) or DPS
    is_normalized = bool(values.number(options.get("normalize_scale_factors")))
    # The error of the actor's mean, if it belongs to the weights.
    error = actor.get("dps", {}).get("error") if metric.lower() == DPS and not is_normalized else None
    found = sorted(factors.items(), key=lambda each: -abs(each[1]))
    listed = [
        known(
            stat=name,
            name=stats.title_of(name),
            weight=weight,
            error=_error(deltas.get(name), error=error),
            delta=deltas.get(name),
        )
        for name, weight in found
    ]
    return known(
        metric=metric,
        normalized=is_normalized,
        stats=listed,
        pawn=pawn(factors, actor) or None,
    )


def _error(delta: float | None, *, error: float | None) -> float | None:
    """Return the margin of error of a weight, or None if it is unknown.

    A weight is the difference of two simulations divided by the change of the stat. Reports lack the error of the
    second one, which is as precise as the first: it runs as many iterations, or to the same target error.
    """
    if not delta or not error:
        return None
    margin = math.sqrt(2) * error / abs(delta)
    # The simulator gives weights of fractional changes for a tenth of a point.
    return margin / 10 if abs(delta) < 1 else margin


def pawn(factors: Mapping[str, float], actor: Mapping[str, Any]) -> str:
    """Return the weights as a string for the Pawn addon, empty if it knows none of the stats."""
    known_stats = [(stat.pawn, factors[key]) for key, stat in stats.STATS.items() if stat.pawn and key in factors]
    if not known_stats:
        return ""
    class_name, spec = actor.get("class", ""), actor.get("specialization", "")
    name = _plain("-".join(filter(None, [actor.get("name", ""), spec])))
    parts = [f"Class={_word(class_name)}"] * bool(class_name) + [f"Spec={_word(spec)}"] * bool(_word(spec))
    parts += [f"{stat}={weight:.{2 if abs(weight) >= 1 else 4}f}" for stat, weight in known_stats]
    return f'( Pawn: v1: "{name}": {", ".join(parts)} )'


def _plain(text: str) -> str:
    """Return a name without the characters that end or structure a Pawn text."""
    plain = " ".join(re.sub(r"[^\w'.-]", " ", text).split())
    return plain[:_PAWN_NAME_LENGTH].strip() or "Weights"


def _word(text: str) -> str:
    """Return a class or specialization as Pawn spells it: letters only."""
    return re.sub(r"[^A-Za-z]", "", text)[:_PAWN_NAME_LENGTH]
