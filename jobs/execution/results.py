"""The results of an attempt: its stages' reports merged into one, the summary and the CSV table."""

import io
import math
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, BinaryIO, Literal, TypeVar, cast

from jobs import api_mode
from jobs.planning.multistage import Stage, StagePlan, beaten
from jobs.planning.past_jobs import additional_fights
from jobs.results import labels, rankings
from simc import csv_report, messages, reports, shortfall
from simc.profiles.analysis import Analysis
from simc.profiles.numbers import Precision
from simc.reports import NotReached, Player, Profileset, Report, Statistics
from simc.shortfall import Asked

T = TypeVar("T", Player, Profileset)


class Results:
    """Merges the reports of the stages. `culled` are the profilesets that later stages leave out."""

    def __init__(self, plan: StagePlan, analysis: Analysis) -> None:
        self.plan, self.analysis = plan, analysis
        self.profilesets = frozenset(analysis.profilesets)
        self.reports_all = analysis.reports_all
        self.metric: Literal["dps", "raid_dps"] = "raid_dps" if analysis.metric == "raid_dps" else "dps"
        self.culled: set[str] = set()
        self.stages: list[dict[str, Any]] = []
        self.report: Report | None = None
        # The stage whose baseline the report has
        self.base_stage = 0
        self.warnings: list[str] = []
        # Warnings of the service
        self.notes: list[str] = []
        self.widening = 1.0

    @property
    def remaining(self) -> int:
        """Return the number of profilesets of the next stage."""
        return len(self.profilesets) - len(self.culled)

    def names_of(self, stage: int) -> frozenset[str]:
        """Return the profilesets whose figures are those of a stage."""
        profilesets = self.report.profilesets if self.report else ()
        return frozenset(entry.name for entry in profilesets if entry.stage == stage)

    def add_stage(self, stage: Stage, report: Report | None, *, is_complete: bool) -> None:
        """Add a stage and its report, if it wrote one. `is_complete` is whether the stage ran to its end."""
        self.stages.append(
            {"stage": stage.number, "label": stage.label, "profilesets": self.remaining, "culled": 0},
        )
        if report is not None:
            self.report = merged(self.report, report, is_complete=is_complete) if self.report else report
            if any(player is self.report.players[0] for player in report.players):
                self.base_stage = stage.number

    def add_warnings(self, warnings: Iterable[str]) -> None:
        """Add the warnings of a stage's simulator."""
        self.warnings = messages.distinct([*self.warnings, *warnings])

    def cull(self, report: Report, *, widening: float = 1.0) -> None:
        """Cull the profilesets that the report of the stage added last shows to be beaten."""
        self.widening = max(self.widening, widening)
        culled = beaten(report.profilesets, widening=widening) & self.profilesets
        self.stages[-1]["culled"] = len(culled)
        self.culled |= culled

    def drop_unreached(self) -> None:
        """Drop the actors and profilesets that a stopped run did not reach."""
        if self.report is not None and self.report.not_reached is None:
            profilesets = len(self.profilesets) if self.reports_all else 0
            self.report = self.report.only_reached(profilesets=profilesets)

    @property
    def not_reached(self) -> NotReached | None:
        """Return how many were not reached, or None if all were."""
        return self.report.not_reached if self.report else None

    def summary(self, *, partial: bool, asked: Asked) -> dict[str, Any] | None:
        """Return the result's summary, or None without a report (`docs/reference/api.md#result-summary`).

        `asked` is what the last stage was asked to do. `partial` is whether the report has only a part of it.
        """
        if self.report is None:
            return None
        stages = self.stages if self.plan.enabled else []
        multistage = {"enabled": self.plan.enabled, "reason": self.plan.reason, "stages": stages}
        if self.widening > 1:
            multistage["widening"] = round(self.widening, 3)
        summary = reports.summarise(self.report, metric=self.metric, multistage=multistage, partial=partial)
        if additional := self._additional_fights(self.report):
            summary["additional_fights"] = additional
        found = shortfall.of_partial(self.report, asked) if partial else self._of_complete(self.report, asked)
        lacking = shortfall.without_weights_or_plots(
            self.report, weights=self.analysis.scale_factors, plots=bool(self.analysis.plot.points), partial=partial
        )
        warnings = self.listed_warnings([*found, *lacking])
        return {**summary, "warnings": warnings} if warnings else summary

    def _additional_fights(self, report: Report) -> int:
        """Return about how many fights of each actor the scale factors and plots took, 0 if the report has none."""
        if not any(actor.keys() & {"weights", "plots"} for actor in (report.details or {}).get("actors", [])):
            return 0
        numbers = self.analysis.effective_numbers()
        if self.plan.enabled:
            stage = self.plan.stages[-1]
            numbers = Precision(iterations=stage.iterations, target_error=stage.target_error or 0.0)
        first = report.players[0].dps if report.players else None
        spread = 100 * first.stddev / first.mean if first and first.mean > 0 else 0.0
        return round(additional_fights(self.analysis, numbers, spread=spread)) if spread else 0

    def _of_complete(self, report: Report, asked: Asked) -> list[str]:
        return [
            *shortfall.without_damage(report),
            *shortfall.without_result(report, self.profilesets),
            *shortfall.target_not_reached(report, asked),
        ]

    def listed_warnings(self, found: Sequence[str] = (), *, without: str | None = None) -> list[str]:
        """Return the warnings of the service, those that it `found` in the report, and those of the simulator.

        `without` is the reason of the job, which its pages show anyway.
        """
        warnings = [warning for warning in self.warnings if warning != without]
        return messages.listed([*self.notes, *found, *labels.spread(self.widening)], warnings)

    def ranking(self) -> bytes | None:
        """Return the list of all profilesets, or None if the summary lists them all."""
        return rankings.packed(self.report.profilesets) if self.report else None

    def table(self) -> BinaryIO | None:
        """Return the CSV table of all stages, or None without a result."""
        if self.report is None or not (self.report.players or self.report.profilesets):
            return None
        content = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the caller
        text = io.TextIOWrapper(content, encoding="utf-8", newline="", write_through=True)
        csv_report.write(self.report, text, every_actor=api_mode.current().csv_has_every_actor)
        text.detach()
        content.seek(0)
        return cast(BinaryIO, content)


def merged(earlier: Report, later: Report, *, is_complete: bool) -> Report:
    """Merge the reports of two stages: each actor and profileset has the figures of the last stage that it ran in.

    A later stage that `is_complete` wins. One that was stopped wins where it is more precise.
    """
    wins = partial(_wins, is_complete=is_complete)
    return replace(
        later,
        players=_chosen(earlier.players, filter(attrgetter("reached"), later.players), lambda each: each.dps, wins),
        profilesets=_chosen(earlier.profilesets, later.profilesets, lambda each: each.statistics, wins),
        raid_dps=later.raid_dps if wins(later.raid_dps, earlier.raid_dps) else earlier.raid_dps,
        details=later.details if later.details and later.details["actors"] else earlier.details,
    )


def _chosen(
    earlier: Iterable[T],
    later: Iterable[T],
    statistics: Callable[[T], Statistics],
    wins: Callable[[Statistics, Statistics], bool],
) -> tuple[T, ...]:
    """Return each entry of either stage once, that of the later stage if it wins."""
    known = {entry.name: entry for entry in earlier}
    for entry in later:
        if entry.name not in known or wins(statistics(entry), statistics(known[entry.name])):
            known[entry.name] = entry
    return tuple(known.values())


def _wins(later: Statistics, earlier: Statistics, *, is_complete: bool) -> bool:
    """Return whether figures of a later stage replace those of an earlier one.

    A standard error of zero is unknown: a single iteration has none.
    """
    return is_complete or (later.mean_stddev or math.inf) <= (earlier.mean_stddev or math.inf)
