"""Summary of a job's result, as results and manifests contain it.

`jobs.execution.results` builds it when the job ends and the job's row keeps it as JSON.
"""

from typing import Annotated, Literal, NotRequired, TypedDict, cast

from jobs.enums import MultistageReason, StageLabel, VerdictKind
from jobs.models import Job
from jobs.results import verdicts
from jobs.results.details import Item, ItemFields
from jobs.results.verdicts import MAX_NAMES
from simservice.shapes import Count, Rule


class Figures(TypedDict):
    """Statistics of one metric over all iterations. The names are SimulationCraft's."""

    mean: float
    mean_error: Annotated[float, "Margin of error of the mean: 1.96 times `mean_stddev`, half of the 95 % interval"]
    mean_stddev: Annotated[float, "Standard error of the mean"]
    stddev: float
    min: float
    max: float


class ActorFigures(Figures):
    """Result of one actor."""

    name: str


class ProfilesetFigures(Figures):
    """Result of one profileset."""

    name: str
    stage: Annotated[
        int, "The stage that produced the figures, the last one the profileset ran in", Rule(minimum=1)
    ]


class Profilesets(TypedDict):
    """Results of the profilesets, best first."""

    count: Annotated[Count, "Number of profilesets; `results` may contain fewer"]
    results: Annotated[list[ProfilesetFigures], Rule(maxItems=200)]


class IdentifiedItem(ItemFields):
    """A piece of gear with an item id."""

    id: int


class MainActor(Figures):
    """Result of the profile's main actor."""

    name: str
    profilesets: NotRequired[Profilesets]
    talents: NotRequired[str]
    gear: NotRequired[list[Item]]


class Actors(TypedDict):
    """Results of several actors."""

    count: Annotated[Count, "Number of actors; `results` may contain fewer"]
    results: Annotated[list[ActorFigures], Rule(maxItems=200)]


class StageSummary(TypedDict):
    """A completed stage."""

    stage: Annotated[int, Rule(minimum=1)]
    label: StageLabel
    profilesets: Annotated[Count, "Number of profilesets that were simulated"]
    culled: Annotated[Count, "Number of profilesets that were not passed on to the next stage"]


class MultiStage(TypedDict):
    """Whether the job ran in stages, and why."""

    enabled: bool
    reason: Annotated[MultistageReason, "Why the job ran, or did not run, in stages"]
    stages: Annotated[list[StageSummary], "Empty if the job ran in a single pass"]
    widening: NotRequired[
        Annotated[
            float,
            "Factor by which two runs of the same profileset differed more than their errors. Present if above 1",
            Rule(minimum=1),
        ]
    ]


class NotReached(TypedDict):
    """Number of actors and profilesets without a finished iteration because the run was stopped early."""

    actors: Count
    profilesets: Count


class Summary(TypedDict):
    """Main figures of a simulation."""

    metric: Literal["dps", "raid_dps"]
    mainActor: Annotated[MainActor | None, "Null if the profile has several actors and no main actor"]
    talents: NotRequired[Annotated[str, "The talents of the main actor, as in `mainActor`"]]
    gear: NotRequired[Annotated[list[IdentifiedItem], "The gear of the main actor that has item ids"]]
    multiStage: MultiStage
    actors: NotRequired[Annotated[Actors, "Present if the profile has more than one actor"]]
    iterations: NotRequired[Annotated[Count, "Number of iterations. Present if the job ran in a single pass"]]
    additional_fights: NotRequired[
        Annotated[
            Count, "Approximate number of fights per actor for stat weights and plots. Present if there are any"
        ]
    ]
    partial: NotRequired[Annotated[Literal[True], "Present if the run ended before it had simulated everything"]]
    warnings: NotRequired[
        Annotated[list[str], Rule(maxItems=20), "Warnings about the run, the most important ones first"]
    ]
    not_reached: NotRequired[
        Annotated[NotReached, "Present if the run was stopped before all actors and profilesets were simulated"]
    ]


class Verdict(TypedDict):
    """The verdict about the profilesets or actors of a result."""

    kind: VerdictKind
    names: Annotated[
        list[str], "The best profileset or actor, or those tied for best, best first", Rule(maxItems=MAX_NAMES)
    ]
    count: Annotated[Count, "Number of entries that are best or tied for best; `names` may list fewer"]
    change: Annotated[float | None, "In percent of the baseline, on average if several are tied"]
    margin: Annotated[float | None, "Margin of error of `change`, with the correction for many comparisons"]
    factor: Annotated[
        float,
        "Factor for margins of differences: √(a² + b²) × `factor`, where a and b are two `mean_error`",
        Rule(minimum=1),
    ]
    text: Annotated[str, "The verdict as a sentence, with numbers rounded to their margin"]


def with_equipment(stored: Summary) -> Summary:
    """Return a stored summary with the talents and the gear of its main actor beside the actor."""
    actor = stored.get("mainActor")
    summary = stored.copy()
    if actor and "talents" in actor:
        summary["talents"] = actor["talents"]
    if actor and (gear := [cast(IdentifiedItem, item) for item in actor.get("gear", []) if "id" in item]):
        summary["gear"] = gear
    return summary


EXAMPLE_FIGURES: Figures = {
    "mean": 1523400.5,
    "mean_error": 1176.0,
    "mean_stddev": 600.0,
    "stddev": 18973.7,
    "min": 1468002.1,
    "max": 1590311.8,
}
EXAMPLE_BETTER_FIGURES: Figures = {**EXAMPLE_FIGURES, "mean": 1561485.5, "min": 1504752.2, "max": 1630068.1}
EXAMPLE_STAGED_SUMMARY = with_equipment(
    {
        "metric": "dps",
        "mainActor": {
            "name": "Example",
            **EXAMPLE_FIGURES,
            "profilesets": {"count": 1, "results": [{"name": "Other hood", **EXAMPLE_BETTER_FIGURES, "stage": 3}]},
            "talents": "CAEAAAAAAAAAAAAAAAAAAAAAAYGjZGmxMzMzMDAA",
            "gear": [
                {
                    "slot": "head",
                    "name": "Example Hood",
                    "id": 212000,
                    "ilevel": 600,
                    "bonusIds": [1, 2],
                    "craftedStatIds": [36, 49],
                }
            ],
        },
        "multiStage": {
            "enabled": True,
            "reason": MultistageReason.ELIGIBLE,
            "stages": [
                {"stage": 1, "label": StageLabel.INITIAL, "profilesets": 60, "culled": 48},
                {"stage": 2, "label": StageLabel.INTERMEDIATE, "profilesets": 12, "culled": 9},
                {"stage": 3, "label": StageLabel.FINAL, "profilesets": 3, "culled": 0},
            ],
        },
    }
)
EXAMPLE_ACTORS_SUMMARY: Summary = {
    "metric": "dps",
    "mainActor": None,
    "multiStage": {"enabled": False, "reason": MultistageReason.DISABLED, "stages": []},
    "actors": {
        "count": 2,
        "results": [{"name": "Another", **EXAMPLE_FIGURES}, {"name": "A third", **EXAMPLE_FIGURES}],
    },
    "iterations": 1000,
}


def summary_object(job: Job) -> Summary | None:
    """Return the summary of a job's result, or None if the simulator wrote no report."""
    return None if job.summary is None else with_equipment(cast(Summary, job.summary))


def verdict_object(job: Job) -> Verdict | None:
    """Return the verdict of a job's result, or None without one (docs/reference/api.md#verdict)."""
    return _object(verdicts.verdict_of(job))


def _object(found: verdicts.Verdict | None) -> Verdict | None:
    if found is None:
        return None
    return {
        "kind": found.kind,
        "names": list(found.names),
        "count": found.count,
        "change": found.change,
        "margin": found.margin,
        "factor": found.factor,
        "text": found.text,
    }


EXAMPLE_VERDICT = cast(Verdict, _object(verdicts.verdict_in(EXAMPLE_STAGED_SUMMARY)))
EXAMPLE_ACTORS_VERDICT = cast(Verdict, _object(verdicts.verdict_in(EXAMPLE_ACTORS_SUMMARY)))
