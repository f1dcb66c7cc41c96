"""The parts of a result that the pages of a job show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.results import groups, headline, ranking
from dashboard.results.actor import ActorView, Who, view_of, who_of
from dashboard.results.baseline import Compared
from dashboard.results.filters import Filters, filters_of
from dashboard.results.funnel import FunnelStage, funnel_of
from dashboard.results.groups import Group
from dashboard.results.headline import Reading, facts, readings
from dashboard.results.options import Options
from dashboard.results.ranking import Ranking
from jobs.models import Job
from jobs.results import labels, rankings
from jobs.results.details import Actor, Details, FightLength, details_of
from jobs.results.rankings import Entry

METRICS = {"dps": "DPS", "raid_dps": "Raid DPS"}
# Actors that are shown side by side; more are shown one at a time.
MAX_BESIDE = 4


@dataclass(frozen=True, kw_only=True)
class ActorLink:
    """An actor that the page can show, and the query string that does so."""

    name: str
    is_current: bool
    link: str


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of a job. Parts without data are empty or None."""

    metric: str
    actor: Mapping[str, Any] | None
    who: Who | None
    readings: Sequence[Reading]
    facts: Sequence[tuple[str, str]]
    ranking: Ranking | None
    groups: Sequence[Group]
    filters: Filters | None
    """Those of `ranking`, or of `actors` if there is no ranking."""
    actors: Ranking | None
    funnel: Sequence[FunnelStage]
    single_pass: str | None
    partial: bool
    fight_lengths: FightLength | None
    """Those of a partial result."""
    warnings: Sequence[str]
    view: ActorView | None
    views: Sequence[ActorView]
    """Two to MAX_BESIDE actors, which are shown side by side."""
    choices: Sequence[ActorLink]
    options: Options


def load(job: Job, options: Options) -> Result | None:
    """Return a job's result with its details, or None if it has none. At most two queries."""
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
    """Return a job's result, or None if it has none. No query.

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
        self.stages: Mapping[str, Any] = self.summary.get("multiStage", {})
        self.fight = details.fight if details else None
        self.actors = details.actors if details else ()
        best = rankings.listed(self._profilesets().get("results", []))
        # Only the entries in the summary have their smallest and largest values.
        self.profilesets = [*best, *entries[len(best) :]]
        self.own = rankings.listed([self.main], first=0)[0] if self.main else None
        self.variants = Compared(self.profilesets, self.own, base=options.base) if self.own else None
        self.others = self._other_actors()

    def _profilesets(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = (self.main or {}).get("profilesets", {})
        return found

    def result(self) -> Result:
        """Return the result."""
        views, current = self._views()
        ranked, actors, found = self._ranking(), self._actor_ranking(), self._groups()
        filtered = ranked or actors
        variants = ranked.count if ranked else 0
        return Result(
            metric=METRICS.get(str(self.summary.get("metric")), "DPS"),
            actor=self.main,
            who=who_of(self.actors[0]) if self.main and self.actors else None,
            readings=self._readings(),
            facts=facts(self.job, self.fight, iterations=self.summary.get("iterations"), variants=variants),
            ranking=ranked,
            groups=found,
            filters=filters_of(self.options, filtered, found) if filtered else None,
            actors=actors,
            funnel=funnel_of(self.stages.get("stages", [])),
            single_pass=labels.single_pass(self.stages.get("reason", "")) if self.job.multi_stage else None,
            partial=self.job.is_partial,
            fight_lengths=self.actors[0].fight_length if self.actors and self.job.is_partial else None,
            warnings=self.job.listed_warnings,
            view=views[current] if views else None,
            views=views if 1 < len(views) <= MAX_BESIDE else [],
            choices=self._choices(),
            options=self.options,
        )

    def _readings(self) -> list[Reading]:
        """Return the best profileset, or else the best actor, and the baseline."""
        actor = self.actors[0] if self.actors and self.summary.get("metric") == "dps" else None
        if self.variants:
            return readings(self.variants, actor, noun=headline.VARIANT)
        return readings(self.others, actor, noun=headline.ACTOR) if self.others else []

    def _ranking(self) -> Ranking | None:
        if not self.variants or not self.profilesets:
            return None
        count = self._profilesets().get("count", 0)
        return ranking.ranking_of(self.variants, self.options, count=count, from_baseline=True)

    def _groups(self) -> list[Group]:
        if not self.variants:
            return []
        return groups.pictures(self.variants, link=lambda name: self.options.link(group=name))

    def _other_actors(self) -> Compared | None:
        """Return the other actors, compared with the first one, or None for a single actor."""
        listed = self.summary.get("actors", {}).get("results")
        if not listed:
            return None
        others = sorted(listed[1:], key=lambda actor: -actor["mean"])
        (first,) = rankings.listed(listed[:1], first=0)
        return Compared(rankings.listed(others), first, base=self._actor_options().base)

    def _actor_options(self) -> Options:
        """Return the options of the ranking of actors. A page with two rankings has the filters of one."""
        return Options() if self.profilesets else self.options

    def _actor_ranking(self) -> Ranking | None:
        """Return the ranking of several actors, or None for a single actor."""
        if not self.others:
            return None
        count = self.summary["actors"].get("count", 0) - 1
        return ranking.ranking_of(self.others, self._actor_options(), count=count, from_baseline=False)

    def _views(self) -> tuple[list[ActorView], int]:
        """Return the actors to show in full, and the index of the current one."""
        actors = self.actors or ((Actor(name=self.main["name"]),) if self.main else ())
        current = min(self.options.actor, len(actors)) - 1
        if len(actors) > MAX_BESIDE:
            return ([self._view(actors, current)], 0)
        return [self._view(actors, number) for number in range(len(actors))], current

    def _view(self, actors: Sequence[Actor], number: int) -> ActorView:
        main = (self.main or {}) if number == 0 else {}
        return view_of(actors[number], self.options, gear=main.get("gear", []), talents=main.get("talents", ""))

    def _choices(self) -> list[ActorLink]:
        if len(self.actors) < 2:
            return []
        chosen = min(self.options.actor, len(self.actors))
        return [
            ActorLink(name=actor.name, is_current=number == chosen, link=self.options.link(actor=number))
            for number, actor in enumerate(self.actors, start=1)
        ]
