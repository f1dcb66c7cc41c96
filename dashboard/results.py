"""Results of a job for its pages: rankings with bars, the funnel of stages, gear and talents.

Summaries come from untrusted profiles: their texts are only escaped, their numbers only compared. Positions in SVG
are percentages of the width, as strings.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobs import labels
from jobs.models import Job

METRICS = {"dps": "DPS", "raid_dps": "Raid DPS"}
MAX_SEARCH_LENGTH = 100
# In percent. A stage that keeps 1 of 10,000 profilesets stays visible.
MIN_WIDTH = 1.5


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A bar of `width` at `start`, with a whisker from `low` to `high`."""

    start: str
    width: str
    low: str
    high: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """One entry of a ranking. `rank` and `difference` are None for the baseline.

    `difference` is in percent. It is `significant` if it exceeds the combined 95 % margin of error.
    """

    rank: int | None
    name: str
    mean: float
    error: float
    stage: int | None
    difference: float | None
    significant: bool
    bar: Bar


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Entries, best first: `listed` of `count`. Bars start at `zero`."""

    rows: Sequence[Row]
    zero: str
    from_baseline: bool
    count: int
    listed: int


@dataclass(frozen=True, kw_only=True)
class FunnelStage:
    """One stage of the funnel. `corners` are SVG points in a picture 100 wide and 20 high."""

    number: int
    label: str
    simulated: int
    culled: int
    corners: str

    @property
    def remaining(self) -> int:
        """How many profilesets the stage keeps."""
        return self.simulated - self.culled


@dataclass(frozen=True, kw_only=True)
class Result:
    """The part of a summary that pages show."""

    metric: str
    actor: Mapping[str, Any] | None
    ranking: Ranking | None
    actors: Ranking | None
    funnel: Sequence[FunnelStage]
    single_pass: str | None
    iterations: int | None
    partial: bool
    warnings: Sequence[str]
    gear: Sequence[Mapping[str, Any]]
    talents: str
    search: str


def result_of(job: Job, *, search: str = "") -> Result | None:
    """Return a job's result, or None if it has none.

    A search limits rankings to names that contain the text; ranks stay the same.
    """
    summary = job.summary
    if not summary or not job.has_result:
        return None
    actor = summary.get("mainActor")
    stages = summary.get("multiStage", {})
    text = search[:MAX_SEARCH_LENGTH].strip()
    return Result(
        metric=METRICS.get(summary.get("metric"), "DPS"),
        actor=actor,
        ranking=_matching(_rank_profilesets(actor), text),
        actors=_matching(_rank_actors(summary), text),
        funnel=_funnel(stages.get("stages", [])),
        single_pass=labels.single_pass(stages.get("reason", "")) if job.multi_stage else None,
        iterations=summary.get("iterations"),
        partial=bool(summary.get("partial")),
        warnings=summary.get("warnings", []),
        gear=(actor or {}).get("gear", []),
        talents=(actor or {}).get("talents", ""),
        search=text,
    )


def _rank_profilesets(actor: Mapping[str, Any] | None) -> Ranking | None:
    """Return the ranking of the profilesets and the actor they change, or None without profilesets."""
    profilesets = (actor or {}).get("profilesets", {})
    if not actor or not profilesets.get("results"):
        return None
    entries = [actor, *profilesets["results"]]
    return _rank(entries, count=profilesets.get("count", 0), from_baseline=bool(actor["mean"]))


def _rank_actors(summary: Mapping[str, Any]) -> Ranking | None:
    """Return the ranking of several actors, with the first one as the baseline, or None for a single actor."""
    actors = summary.get("actors", {})
    if not actors.get("results"):
        return None
    return _rank(actors["results"], count=actors.get("count", 0) - 1, from_baseline=False)


def _rank(entries: Sequence[Mapping[str, Any]], *, count: int, from_baseline: bool) -> Ranking:
    """Rank entries, the first of which is the baseline; `count` is the total without it.

    Bars start at the baseline's mean or at zero.
    """
    baseline = entries[0]
    origin = baseline["mean"] if from_baseline else 0.0
    scale = _Scale(origin, entries)
    order = sorted(entries, key=lambda entry: -entry["mean"])
    ranks = {id(entry): rank for rank, entry in enumerate((e for e in order if e is not baseline), start=1)}
    rows = [_row(entry, baseline, ranks.get(id(entry)), scale) for entry in order]
    return Ranking(
        rows=rows,
        zero=scale.position(origin),
        from_baseline=from_baseline,
        count=max(count, len(ranks)),
        listed=len(ranks),
    )


class _Scale:
    """Maps numbers to positions in a picture that contains the origin and the whiskers of all entries."""

    def __init__(self, origin: float, entries: Iterable[Mapping[str, Any]]) -> None:
        ends = [end for entry in entries for end in _interval(entry)]
        self.origin = origin
        self.low, self.high = min(origin, *ends), max(origin, *ends)

    def percent(self, value: float) -> float:
        """Return the position of a number in percent of the width."""
        span = self.high - self.low
        return (value - self.low) / span * 100 if span else 0.0

    def position(self, value: float) -> str:
        """Return the position of a number for SVG."""
        return f"{self.percent(value):.2f}%"

    def bar(self, entry: Mapping[str, Any]) -> Bar:
        """Return the bar of an entry."""
        start, end = sorted([self.percent(self.origin), self.percent(entry["mean"])])
        low, high = map(self.position, _interval(entry))
        return Bar(start=f"{start:.2f}%", width=f"{end - start:.2f}%", low=low, high=high)


def _interval(entry: Mapping[str, Any]) -> tuple[float, float]:
    """Return the 95 % confidence interval of an entry's mean."""
    return entry["mean"] - entry["mean_error"], entry["mean"] + entry["mean_error"]


def _row(entry: Mapping[str, Any], baseline: Mapping[str, Any], rank: int | None, scale: _Scale) -> Row:
    """Return an entry as a row."""
    gain = entry["mean"] - baseline["mean"]
    has_difference = rank is not None and baseline["mean"]
    return Row(
        rank=rank,
        name=entry["name"],
        mean=entry["mean"],
        error=entry["mean_error"],
        stage=entry.get("stage"),
        difference=gain / baseline["mean"] * 100 if has_difference else None,
        significant=abs(gain) > math.hypot(entry["mean_error"], baseline["mean_error"]),
        bar=scale.bar(entry),
    )


def _matching(ranking: Ranking | None, text: str) -> Ranking | None:
    """Return the rows whose names contain a text, ignoring case, and the baseline."""
    if ranking is None or not text:
        return ranking
    rows = [row for row in ranking.rows if row.rank is None or text.casefold() in row.name.casefold()]
    return replace(ranking, rows=rows, listed=len(rows) - 1)


def _funnel(stages: Sequence[Mapping[str, Any]]) -> list[FunnelStage]:
    """Return the stages that ran, each narrowing from the profilesets it simulated to those it kept."""
    widest = max((stage["profilesets"] for stage in stages), default=0) or 1
    return [
        FunnelStage(
            number=stage["stage"],
            label=labels.STAGES.get(stage["label"], stage["label"]),
            simulated=stage["profilesets"],
            culled=stage["culled"],
            corners=corners(stage["profilesets"] / widest, (stage["profilesets"] - stage["culled"]) / widest),
        )
        for stage in stages
    ]


def corners(top: float, bottom: float) -> str:
    """Return the corners of a funnel stage as SVG points; both edges are fractions of the full width."""
    above, below = (max(share * 100, MIN_WIDTH) / 2 for share in (top, bottom))
    points = [(50 - above, 0), (50 + above, 0), (50 + below, 20), (50 - below, 20)]
    return " ".join(f"{x:.2f},{y}" for x, y in points)
