"""`simctl compare`: the means of jobs side by side.

Differences are clear by the rule of the service's page: the margins of all of them hold together with a probability
of 95 %.
"""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from simservice_client.cli.console import Column, Console
from simservice_client.cli.exits import CommandError, Exit
from simservice_client.cli.formats import UNKNOWN, Figures, margin_between, percent_of, whole, with_margin
from simservice_client.cli.session import open_client
from simservice_client.models import JobResult, Summary

CLEAR = "*"
# The probability that at least one difference is clear by chance
WRONG_PROBABILITY = 0.05
# Standard errors in half of a 95 % confidence interval
CONFIDENCE = 1.96


@dataclass(frozen=True)
class Row:
    """The figures of one name in each job, None where it is absent. `factor` widens the margins of differences."""

    name: str
    figures: Sequence[Figures | None]
    factor: float = 1.0


def compare(arguments: Namespace, console: Console) -> int:
    """Print the differences of jobs from the first one."""
    with open_client(arguments) as client:
        results = [client.jobs.results(job) for job in (arguments.job, *arguments.others)]
    rows = rows_of(results)
    if console.as_json:
        console.document(
            {"jobs": [_job_json(result) for result in results], "rows": [_row_json(row) for row in rows]}
        )
        return Exit.COMPLETED
    for number, result in enumerate(results, 1):
        console.line(f"Job {number}: {result.id} {result.title}")
    console.line()
    console.table(_columns(len(results)), [_cells(row) for row in rows])
    console.line(f"{CLEAR} The difference exceeds its margin of error.")
    return Exit.COMPLETED


def rows_of(results: Sequence[JobResult]) -> list[Row]:
    """Return a row for the main actors, and one for each name of a profileset or another actor."""
    summaries = [_summary(result) for result in results]
    if len({summary.metric for summary in summaries}) > 1:
        raise CommandError("the jobs have different metrics.", Exit.NOT_COMPLETED)
    named = [_named_figures(summary) for summary in summaries]
    main = [summary.main_actor for summary in summaries]
    names = dict.fromkeys(name for figures in named for name in figures)
    rows: list[tuple[str, Sequence[Figures | None]]] = [(_main_name(summaries), main)] if any(main) else []
    rows += [(name, [figures.get(name) for figures in named]) for name in names]
    comparisons = sum(_comparisons(summaries[0], other) for other in summaries[1:])
    factor = _widened(comparisons) * max(summary.multi_stage.widening or 1.0 for summary in summaries)
    return [Row(name, figures, factor) for name, figures in rows]


def _comparisons(first: Summary, other: Summary) -> int:
    """Return how many names two jobs have in common, with that of the main actors.

    If a summary does not list all names, return how many they can have in common.
    """
    listed, counts = [_named_figures(summary) for summary in (first, other)], [_count(first), _count(other)]
    is_complete = [len(each) for each in listed] == counts
    common = len(listed[0].keys() & listed[1].keys()) if is_complete else min(counts)
    return common + (first.main_actor is not None and other.main_actor is not None)


def _count(summary: Summary) -> int:
    """Return the number of profilesets, or of actors if there is no main actor."""
    actor = summary.main_actor
    found = summary.actors if actor is None else actor.profilesets
    return found.count if found is not None else 0


def _widened(comparisons: int) -> float:
    """Return by what factor 95 % margins of error grow, so that all of these comparisons are right with 95 %."""
    if comparisons <= 1:
        return 1.0
    return NormalDist().inv_cdf(1 - WRONG_PROBABILITY / (2 * comparisons)) / CONFIDENCE


def _summary(result: JobResult) -> Summary:
    """Return the figures of a job. Raises CommandError if it has none."""
    if result.summary is None:
        raise CommandError(f"job {result.id} has no figures: the simulator wrote no report.", Exit.NOT_COMPLETED)
    return result.summary


def _main_name(summaries: Sequence[Summary]) -> str:
    """Return the name of the main actors."""
    names = dict.fromkeys(summary.main_actor.name for summary in summaries if summary.main_actor is not None)
    return f"{' / '.join(names)} (baseline)"


def _named_figures(summary: Summary) -> Mapping[str, Figures]:
    """Return the figures of the profilesets, or of the actors without a main actor: the best ones of each name."""
    actor = summary.main_actor
    results: Sequence[Figures] = []
    if actor is not None:
        results = actor.profilesets.results if actor.profilesets is not None else []
    elif summary.actors is not None:
        results = summary.actors.results
    figures: dict[str, Figures] = {}
    for each in results:
        figures.setdefault(each.name, each)
    return figures


def _columns(jobs: int) -> list[Column]:
    others = [
        column
        for number in range(2, jobs + 1)
        for column in (
            Column(f"Job {number}", is_right=True),
            Column("±", is_right=True),
            Column("Change", is_right=True),
        )
    ]
    return [Column("Name"), Column("Job 1", is_right=True), Column("±", is_right=True), *others]


def _cells(row: Row) -> list[str]:
    base, *others = row.figures
    cells = [row.name, *_figure_cells(base)]
    for figure in others:
        cells += [*_figure_cells(figure), _change_cell(figure, base, factor=row.factor)]
    return cells


def _figure_cells(figure: Figures | None) -> list[str]:
    return [UNKNOWN, ""] if figure is None else [whole(figure.mean), whole(figure.mean_error)]


def _change_cell(figure: Figures | None, base: Figures | None, *, factor: float) -> str:
    if figure is None or base is None:
        return ""
    change = with_margin(figure.mean, base.mean, margin=margin_between(figure, base, factor=factor))
    return f"{change} {CLEAR if _is_clear(figure, base, factor=factor) else ' '}"


def _is_clear(figure: Figures, base: Figures, *, factor: float) -> bool:
    """Return whether two means clearly differ. Without their errors, that is unknown."""
    margin = margin_between(figure, base, factor=factor)
    return margin is not None and abs(figure.mean - base.mean) > margin


def _job_json(result: JobResult) -> dict[str, Any]:
    return {"id": result.id, "title": result.title, "status": result.status}


def _row_json(row: Row) -> dict[str, Any]:
    base = row.figures[0]
    return {"name": row.name, "figures": [_figure_json(figure, base, factor=row.factor) for figure in row.figures]}


def _figure_json(figure: Figures | None, base: Figures | None, *, factor: float) -> dict[str, Any] | None:
    """Return a figure and its difference from the first job's."""
    if figure is None:
        return None
    known = {"mean": figure.mean, "meanError": figure.mean_error}
    if base is None or figure is base:
        return {**known, "percent": None, "exceedsError": None}
    is_clear = _is_clear(figure, base, factor=factor)
    return {**known, "percent": percent_of(figure.mean, base.mean), "exceedsError": is_clear}
