"""A job's summary as people look at it: rankings with bars, the funnel of stages, gear and talents.

A summary comes from a stranger's profile: every text in it is only ever escaped, every number only ever compared.
Places in a picture are percent of its width, as texts for SVG.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobs import labels
from jobs.models import Job

METRICS = {"dps": "DPS", "raid_dps": "Raid DPS"}
SEARCHED_CHARACTERS = 100
# A stage that leaves one of ten thousand profilesets is still to be seen.
LEAST_WIDTH = 1.5


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A bar from `start`, so `width` wide, with a whisker from `low` to `high`."""

    start: str
    width: str
    low: str
    high: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """One entry of a ranking. `place` is None for what the others are compared with, which differs from nothing.

    `difference` is in percent; it is `clear` when it is larger than the two 95 % intervals together leave open.
    """

    place: int | None
    name: str
    mean: float
    error: float
    least: float
    most: float
    stage: int | None
    difference: float | None
    clear: bool
    bar: Bar


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Entries, the best first. `zero` is where the bars begin; `count` entries there are, `listed` of them here."""

    rows: Sequence[Row]
    zero: str
    from_baseline: bool
    count: int
    listed: int


@dataclass(frozen=True, kw_only=True)
class Step:
    """One stage of the funnel; its share of the widest one has these corners in a picture 100 wide and 20 high."""

    number: int
    label: str
    simulated: int
    culled: int
    corners: str

    @property
    def left(self) -> int:
        return self.simulated - self.culled


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a page shows of a summary."""

    metric: str
    actor: Mapping[str, Any] | None
    ranking: Ranking | None
    actors: Ranking | None
    funnel: Sequence[Step]
    single_pass: str | None
    iterations: int | None
    partial: bool
    warnings: Sequence[str]
    gear: Sequence[Mapping[str, Any]]
    talents: str
    searched: str


def shown(job: Job, *, search: str = "") -> Shown | None:
    """Return a job's result for a page, None if it has none.

    A search keeps the entries of a ranking whose names contain the text, at their places.
    """
    summary = job.summary
    if not summary or not job.has_result:
        return None
    actor = summary.get("mainActor")
    stages = summary.get("multiStage", {})
    wanted = search[:SEARCHED_CHARACTERS].strip()
    return Shown(
        metric=METRICS.get(summary.get("metric"), "DPS"),
        actor=actor,
        ranking=searched(profilesets(actor), wanted),
        actors=searched(actors(summary), wanted),
        funnel=funnel(stages.get("stages", [])),
        single_pass=labels.single_pass(stages.get("reason", "")) if job.multi_stage else None,
        iterations=summary.get("iterations"),
        partial=bool(summary.get("partial")),
        warnings=summary.get("warnings", []),
        gear=(actor or {}).get("gear", []),
        talents=(actor or {}).get("talents", ""),
        searched=wanted,
    )


def profilesets(actor: Mapping[str, Any] | None) -> Ranking | None:
    """Return the profilesets beside the actor they change, None when there are none."""
    found = (actor or {}).get("profilesets", {})
    if not actor or not found.get("results"):
        return None
    return ranked([actor, *found["results"]], count=found.get("count", 0), from_baseline=bool(actor["mean"]))


def actors(summary: Mapping[str, Any]) -> Ranking | None:
    """Return the actors of a profile that has several, compared with its first one."""
    found = summary.get("actors", {})
    if not found.get("results"):
        return None
    return ranked(found["results"], count=found.get("count", 0) - 1, from_baseline=False)


def ranked(entries: Sequence[Mapping[str, Any]], *, count: int, from_baseline: bool) -> Ranking:
    """Rank entries, the first of which is the baseline; `count` others there are in all.

    Bars begin at the baseline, so that small differences can be seen for what they are, or else at zero.
    """
    baseline = entries[0]
    origin = baseline["mean"] if from_baseline else 0.0
    scale = Scale(origin, entries)
    order = sorted(entries, key=lambda entry: -entry["mean"])
    places = {id(entry): place for place, entry in enumerate((e for e in order if e is not baseline), start=1)}
    rows = [row(entry, baseline, places.get(id(entry)), scale) for entry in order]
    return Ranking(
        rows=rows,
        zero=scale.at(origin),
        from_baseline=from_baseline,
        count=max(count, len(places)),
        listed=len(places),
    )


class Scale:
    """Where numbers lie in a picture that holds the origin and every entry with its whisker."""

    def __init__(self, origin: float, entries: Iterable[Mapping[str, Any]]) -> None:
        ends = [end for entry in entries for end in whisker(entry)]
        self.origin = origin
        self.low, self.high = min(origin, *ends), max(origin, *ends)

    def percent(self, value: float) -> float:
        """Return a number's place in percent of the width."""
        reach = self.high - self.low
        return (value - self.low) / reach * 100 if reach else 0.0

    def at(self, value: float) -> str:
        """Return a number's place as SVG has it."""
        return f"{self.percent(value):.2f}%"

    def bar(self, entry: Mapping[str, Any]) -> Bar:
        """Return an entry's bar."""
        ends = sorted([self.percent(self.origin), self.percent(entry["mean"])])
        low, high = whisker(entry)
        return Bar(start=f"{ends[0]:.2f}%", width=f"{ends[1] - ends[0]:.2f}%", low=self.at(low), high=self.at(high))


def whisker(entry: Mapping[str, Any]) -> tuple[float, float]:
    """Return the 95 % interval of an entry's mean."""
    return entry["mean"] - entry["mean_error"], entry["mean"] + entry["mean_error"]


def row(entry: Mapping[str, Any], baseline: Mapping[str, Any], place: int | None, scale: Scale) -> Row:
    """Return an entry as a row."""
    gained = entry["mean"] - baseline["mean"]
    compared = place is not None and baseline["mean"]
    return Row(
        place=place,
        name=entry["name"],
        mean=entry["mean"],
        error=entry["mean_error"],
        least=entry.get("min", 0.0),
        most=entry.get("max", 0.0),
        stage=entry.get("stage"),
        difference=gained / baseline["mean"] * 100 if compared else None,
        clear=abs(gained) > math.hypot(entry["mean_error"], baseline["mean_error"]),
        bar=scale.bar(entry),
    )


def searched(ranking: Ranking | None, text: str) -> Ranking | None:
    """Return the rows whose names hold a text, whatever its case, and the baseline."""
    if ranking is None or not text:
        return ranking
    kept = [row for row in ranking.rows if row.place is None or text.casefold() in row.name.casefold()]
    return replace(ranking, rows=kept, listed=len(kept) - 1)


def funnel(stages: Sequence[Mapping[str, Any]]) -> list[Step]:
    """Return the stages that ran, each as wide as its profilesets and narrowing to those it left."""
    widest = max((stage["profilesets"] for stage in stages), default=0) or 1
    return [
        Step(
            number=stage["stage"],
            label=labels.STAGES.get(stage["label"], stage["label"]),
            simulated=stage["profilesets"],
            culled=stage["culled"],
            corners=corners(stage["profilesets"] / widest, (stage["profilesets"] - stage["culled"]) / widest),
        )
        for stage in stages
    ]


def corners(above: float, below: float) -> str:
    """Return the corners of a piece of a funnel whose edges are such shares of the whole width."""
    top, bottom = (max(share * 100, LEAST_WIDTH) / 2 for share in (above, below))
    places = [(50 - top, 0), (50 + top, 0), (50 + bottom, 20), (50 - bottom, 20)]
    return " ".join(f"{x:.2f},{y}" for x, y in places)
