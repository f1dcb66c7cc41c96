"""What an attempt found out: the reports of its stages as one report, its summary and its table."""

import io
import math
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from operator import attrgetter
from typing import Any, BinaryIO, Literal, TypeVar, cast

from jobs import labels, variants
from jobs.execution.multistage import Plan, Stage, beaten
from jobs.profiles.analysis import Analysis
from jobs.simulator import csv_report, messages, report_summary
from jobs.simulator.reports import NotReached, Player, Profileset, Report, Statistics

T = TypeVar("T", Player, Profileset)


class Results:
    """Takes in one report after the other; `culled` holds the profilesets that run no more."""

    def __init__(self, plan: Plan, analysis: Analysis) -> None:
        self.plan = plan
        self.expected = frozenset(analysis.profilesets)
        self.reports_all = analysis.reports_all
        self.metric: Literal["dps", "raid_dps"] = "raid_dps" if analysis.metric == "raid_dps" else "dps"
        self.culled: set[str] = set()
        self.stages: list[dict[str, Any]] = []
        self.report: Report | None = None
        self.warnings: list[str] = []
        self.spread = 1.0

    @property
    def left(self) -> int:
        """Return how many profilesets the next stage has."""
        return len(self.expected) - len(self.culled)

    def take(self, stage: Stage, report: Report | None) -> None:
        """Take a stage's report, if it left one."""
        self.stages.append(
            {"stage": stage.number, "label": stage.label, "profilesets": self.left, "culled": 0},
        )
        if report is not None:
            self.report = merged(self.report, report) if self.report else report

    def warn(self, warnings: Iterable[str]) -> None:
        """Add the warnings of a stage's simulator."""
        self.warnings = messages.distinct([*self.warnings, *warnings])

    def cull(self, report: Report, *, widening: float = 1.0) -> None:
        """Leave out what a stage showed to be beaten; the stage's report is the one taken last."""
        self.spread = max(self.spread, widening)
        out = beaten(report.profilesets, widening=widening) & self.expected
        self.stages[-1]["culled"] = len(out)
        self.culled |= out

    def leave_out_unreached(self) -> None:
        """Leave out actors and profilesets that a stopped run did not reach."""
        if self.report is not None and self.report.not_reached is None:
            profilesets = len(self.expected) if self.reports_all else 0
            self.report = self.report.only_reached(profilesets=profilesets)

    @property
    def not_reached(self) -> NotReached | None:
        """Return how many were left out as not reached, None if none were."""
        return self.report.not_reached if self.report else None

    def summary(self, *, partial: bool) -> dict[str, Any] | None:
        """Return the result's summary, or None without a report: `docs/reference/contract.md#result-summary`."""
        if self.report is None:
            return None
        stages = self.stages if self.plan.enabled else []
        multistage = {"enabled": self.plan.enabled, "reason": self.plan.reason, "stages": stages}
        summary = report_summary.summarise(self.report, metric=self.metric, multistage=multistage, partial=partial)
        warnings = messages.distinct([*labels.spread(self.spread), *self.warnings])
        return {**summary, "warnings": warnings} if warnings else summary

    def table(self) -> BinaryIO | None:
        """Make the CSV table over all stages; None without any result."""
        if self.report is None or not (self.report.players or self.report.profilesets):
            return None
        content = tempfile.TemporaryFile()  # noqa: SIM115 - whoever stores it closes it
        text = io.TextIOWrapper(content, encoding="utf-8", newline="", write_through=True)
        csv_report.write(self.report, text, every_actor=variants.current().csv_has_every_actor)
        text.detach()
        content.seek(0)
        return cast(BinaryIO, content)


def merged(earlier: Report, later: Report) -> Report:
    """Return the reports of two stages as one: of each actor and profileset what is known best."""
    return replace(
        later,
        players=best([*earlier.players, *filter(attrgetter("reached"), later.players)], lambda player: player.dps),
        profilesets=best([*earlier.profilesets, *later.profilesets], lambda found: found.statistics),
        raid_dps=later.raid_dps if better(later.raid_dps, earlier.raid_dps) else earlier.raid_dps,
    )


def best(entries: Iterable[T], statistics: Callable[[T], Statistics]) -> tuple[T, ...]:
    """Return of the entries with the same name the one that is known best."""
    known: dict[str, T] = {}
    for entry in entries:
        if entry.name not in known or better(statistics(entry), statistics(known[entry.name])):
            known[entry.name] = entry
    return tuple(known.values())


def better(later: Statistics, earlier: Statistics) -> bool:
    """Tell whether later figures replace earlier ones: a stage that was stopped may know less than one before it.

    A standard error of zero tells nothing: one iteration has none.
    """
    return (later.mean_stddev or math.inf) <= (earlier.mean_stddev or math.inf)
