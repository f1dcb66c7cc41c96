"""The parts of a result that the pages of a job show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.results.actor import ActorView, Who, view_of, who_of
from dashboard.results.headline import Reading, facts, readings
from dashboard.results.options import Options
from dashboard.results.ranking import Filters, Group, Ranking, filters_of, groups_of, ranking_of
from jobs.models import Job
from jobs.results import labels, rankings, verdicts
from jobs.results.details import Actor, Details, FightLength, details_of
from jobs.results.rankings import Entry
from jobs.results.verdicts import Verdict

# Actors that are shown side by side; more are shown one at a time.
MAX_BESIDE = 4
# In percent. A stage with 1 of 10,000 profilesets stays visible.
MIN_WIDTH = 1.5


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of a job. Parts without data are empty or None.

    `filters` are those of `ranking`, or of `actors` if there is no ranking. `fight_lengths` are those of a partial
    result. `views` are two to MAX_BESIDE actors, which are shown side by side. `choices` are links to all actors.
    """

    metric: str
    actor: Mapping[str, Any] | None
    who: Who | None
    verdict: Verdict | None
    readings: Sequence[Reading]
    facts: Sequence[tuple[str, str]]
    ranking: Ranking | None
    groups: Sequence[Group]
    filters: Filters | None
    actors: Ranking | None
    funnel: Sequence[dict[str, Any]]
    single_pass: str | None
    partial: bool
    fight_lengths: FightLength | None
    warnings: Sequence[str]
    view: ActorView | None
    views: Sequence[ActorView]
    choices: Sequence[dict[str, Any]]
    options: Options


def load(job: Job, options: Options) -> Result | None:
    """Return a job's result with its details, or None if it has none."""
    if not job.summary or not job.has_result:
        return None
    shown = [*range(MAX_BESIDE), options.actor - 1]
    return result_of(job, options, details=details_of(job, shown=shown), entries=rankings.entries_of(job))


def result_of(
    job: Job,
    options: Options | None = None,
    *,
    details: Details | None = None,
    entries: Sequence[Entry] = (),
) -> Result | None:
    """Return a job's result, or None if it has none.

    `entries` are all profilesets if the summary does not list all of them.
    """
    if not job.summary or not job.has_result:
        return None
    return _Builder(job, options or Options(), details, entries).result()


class _Builder:
    """Collects the parts of one result."""

    def __init__(self, job: Job, options: Options, details: Details | None, entries: Sequence[Entry]) -> None:
        self.job, self.options = job, options
        self.summary: Mapping[str, Any] = job.summary or {}
        self.main: Mapping[str, Any] | None = self.summary.get("mainActor")
        self.listed: Mapping[str, Any] = (self.main or {}).get("profilesets", {})
        self.fight = details.fight if details else None
        self.actors = details.actors if details else ()
        self.variants = verdicts.variants_of(self.summary, entries=entries, base=options.base)
        self.profilesets = self.variants.entries if self.variants else ()
        # A page with two rankings has the filters of one.
        self.actor_options = Options() if self.profilesets else options
        self.others = verdicts.actors_of(self.summary, base=self.actor_options.base)

    def result(self) -> Result:
        views, current = self._views()
        ranked, actors = self._rankings()
        groups = groups_of(self.variants, self.options) if self.variants else []
        filtered = ranked or actors
        stages: Mapping[str, Any] = self.summary.get("multiStage", {})
        variants = ranked.count if ranked else 0
        compared = self.variants or self.others
        verdict = compared.verdict(unit=verdicts.unit_of(self.summary)) if compared else None
        # The details of the first actor have the median of its damage.
        actor = self.actors[0] if self.actors and self.summary.get("metric") == "dps" else None
        return Result(
            metric=verdicts.unit_of(self.summary),
            actor=self.main,
            who=who_of(self.actors[0]) if self.main and self.actors else None,
            verdict=verdict,
            readings=readings(compared, verdict, actor) if compared and verdict else [],
            facts=facts(
                self.job,
                self.fight,
                own=compared.own if compared else None,
                iterations=self.summary.get("iterations"),
                variants=variants,
            ),
            ranking=ranked,
            groups=groups,
            filters=filters_of(self.options, filtered, groups) if filtered else None,
            actors=actors,
            funnel=_funnel(stages.get("stages", [])),
            single_pass=labels.single_pass(stages.get("reason", "")) if self.job.multi_stage else None,
            partial=self.job.is_partial,
            fight_lengths=self.actors[0].fight_length if self.actors and self.job.is_partial else None,
            warnings=self.job.listed_warnings,
            view=views[current] if views else None,
            views=views if 1 < len(views) <= MAX_BESIDE else [],
            choices=self._choices(),
            options=self.options,
        )

    def _rankings(self) -> tuple[Ranking | None, Ranking | None]:
        """Return the ranking of profilesets and that of several actors. Each is None without entries."""
        ranked = actors = None
        if self.variants and self.profilesets:
            count = self.listed.get("count", 0)
            ranked = ranking_of(self.variants, self.options, count=count, from_baseline=True)
        if self.others:
            count = self.summary["actors"].get("count", 0) - 1
            actors = ranking_of(self.others, self.actor_options, count=count, from_baseline=False)
        return ranked, actors

    def _views(self) -> tuple[list[ActorView], int]:
        """Return the actors to show in full, and the index of the current one."""
        actors = self.actors or ((Actor(name=self.main["name"]),) if self.main else ())
        current = min(self.options.actor, len(actors)) - 1
        shown = range(len(actors)) if len(actors) <= MAX_BESIDE else [current]
        views = []
        for number in shown:
            main = (self.main or {}) if number == 0 else {}
            gear, talents = main.get("gear", []), main.get("talents", "")
            views.append(view_of(actors[number], self.options, gear=gear, talents=talents))
        return views, current if len(views) == len(actors) else 0

    def _choices(self) -> list[dict[str, Any]]:
        if len(self.actors) < 2:
            return []
        chosen = min(self.options.actor, len(self.actors))
        return [
            {"name": actor.name, "is_current": number == chosen, "link": self.options.link(actor=number)}
            for number, actor in enumerate(self.actors, start=1)
        ]


def _funnel(stages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the stages that ran, each with its part of the largest one."""
    widest = max((stage["profilesets"] for stage in stages), default=0) or 1
    return [
        {
            "number": stage["stage"],
            "label": labels.STAGES.get(stage["label"], stage["label"]),
            "simulated": stage["profilesets"],
            "culled": stage["culled"],
            "width": f"{max(stage['profilesets'] / widest * 100, MIN_WIDTH):.1f}%",
        }
        for stage in stages
    ]
