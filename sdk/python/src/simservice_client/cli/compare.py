"""`simctl compare`: the means of jobs side by side."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simservice_client.cli.console import Column, Console
from simservice_client.cli.exits import CommandError, Exit
from simservice_client.cli.formats import UNKNOWN, margin_between, percent_of, whole, with_margin
from simservice_client.cli.session import open_client
from simservice_client.models import JobResult, Summary

CLEAR = "*"


@dataclass(frozen=True)
class Figure:
    """A mean, its margin of error, and the factor that widens the margins of all differences of its job."""

    mean: float
    error: float
    factor: float


@dataclass(frozen=True)
class Row:
    """The figures of one name in each job, None where it is absent."""

    name: str
    figures: Sequence[Figure | None]


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
    factors = [result.verdict.factor if result.verdict else 1.0 for result in results]
    named = [_named_figures(*each) for each in zip(summaries, factors, strict=True)]
    main = [_main_figure(*each) for each in zip(summaries, factors, strict=True)]
    rows = [Row(_main_name(summaries), main)] if any(main) else []
    names = dict.fromkeys(name for figures in named for name in figures)
    return rows + [Row(name, [figures.get(name) for figures in named]) for name in names]


def _summary(result: JobResult) -> Summary:
    """Return the figures of a job. Raises CommandError if it has none."""
    if result.summary is None:
        raise CommandError(f"job {result.id} has no figures: the simulator wrote no report.", Exit.NOT_COMPLETED)
    return result.summary


def _main_figure(summary: Summary, factor: float) -> Figure | None:
    actor = summary.main_actor
    return None if actor is None else Figure(actor.mean, actor.mean_error, factor)


def _main_name(summaries: Sequence[Summary]) -> str:
    """Return the name of the main actors."""
    names = dict.fromkeys(summary.main_actor.name for summary in summaries if summary.main_actor is not None)
    return f"{' / '.join(names)} (baseline)"


def _named_figures(summary: Summary, factor: float) -> Mapping[str, Figure]:
    """Return the figures of the profilesets, or of the actors if there is no main actor."""
    actor = summary.main_actor
    if actor is not None:
        results = actor.profilesets.results if actor.profilesets is not None else []
        return {each.name: Figure(each.mean, each.mean_error, factor) for each in results}
    actors = summary.actors.results if summary.actors is not None else []
    return {each.name: Figure(each.mean, each.mean_error, factor) for each in actors}


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
        cells += [*_figure_cells(figure), _change_cell(figure, base)]
    return cells


def _figure_cells(figure: Figure | None) -> list[str]:
    return [UNKNOWN, ""] if figure is None else [whole(figure.mean), whole(figure.error)]


def _change_cell(figure: Figure | None, base: Figure | None) -> str:
    if figure is None or base is None:
        return ""
    change = with_margin(figure.mean, base.mean, margin=_margin(figure, base))
    return f"{change} {CLEAR if _is_clear(figure, base) else ' '}"


def _is_clear(figure: Figure, base: Figure) -> bool:
    """Return whether two means clearly differ. Without their errors, that is unknown."""
    margin = _margin(figure, base)
    return margin is not None and abs(figure.mean - base.mean) > margin


def _margin(figure: Figure, base: Figure) -> float | None:
    return margin_between(figure.error, base.error, factor=max(figure.factor, base.factor))


def _job_json(result: JobResult) -> dict[str, Any]:
    return {"id": result.id, "title": result.title, "status": result.status}


def _row_json(row: Row) -> dict[str, Any]:
    base = row.figures[0]
    return {"name": row.name, "figures": [_figure_json(figure, base) for figure in row.figures]}


def _figure_json(figure: Figure | None, base: Figure | None) -> dict[str, Any] | None:
    """Return a figure and its difference from the first job's."""
    if figure is None:
        return None
    known = {"mean": figure.mean, "meanError": figure.error}
    if base is None or figure is base:
        return {**known, "percent": None, "exceedsError": None}
    return {**known, "percent": percent_of(figure.mean, base.mean), "exceedsError": _is_clear(figure, base)}
