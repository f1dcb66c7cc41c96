"""The stages of a job as a funnel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.results import labels

# In percent. A stage with 1 of 10,000 profilesets stays visible.
MIN_WIDTH = 1.5


@dataclass(frozen=True, kw_only=True)
class FunnelStage:
    """One stage of the funnel. `width` is its part of the largest stage."""

    number: int
    label: str
    simulated: int
    culled: int
    width: str


def funnel_of(stages: Sequence[Mapping[str, Any]]) -> list[FunnelStage]:
    """Return the stages that ran."""
    widest = max((stage["profilesets"] for stage in stages), default=0) or 1
    return [
        FunnelStage(
            number=stage["stage"],
            label=labels.STAGES.get(stage["label"], stage["label"]),
            simulated=stage["profilesets"],
            culled=stage["culled"],
            width=f"{max(stage['profilesets'] / widest * 100, MIN_WIDTH):.1f}%",
        )
        for stage in stages
    ]
