"""The figures of a result: the ranking of its profilesets, or its actors."""

from simservice_client.cli.console import Column, Console
from simservice_client.cli.formats import change, state, whole, with_error
from simservice_client.cli.weights import print_weights
from simservice_client.models import ActorFigures, JobResult, MainActor, ProfilesetFigures, Summary

Ranked = MainActor | ProfilesetFigures
METRICS = {"dps": "DPS", "raid_dps": "raid DPS"}


def print_result(console: Console, result: JobResult) -> None:
    """Print a job's figures, best first, and its main facts."""
    summary = result.summary
    if summary is not None:
        print_figures(console, summary)
    print_weights(console, result)
    print_missing(console, result)
    facts = [
        f"{whole(result.runtime.credits_consumed)} credits" if result.runtime.credits_consumed is not None else "",
        f"simulated in {result.runtime.sim_duration_ms / 1000:,.1f} s" if result.runtime.sim_duration_ms else "",
    ]
    console.line(f"Job {result.id}: {', '.join([state(result.status), *filter(None, facts)])}")
    console.line(result.links.share)


def print_missing(console: Console, result: JobResult) -> None:
    """Print which expected files are missing, and why."""
    for artifact in result.result.missing_artifacts or []:
        console.line(f"Missing file {artifact.name}: {artifact.reason}")


def print_figures(console: Console, summary: Summary) -> None:
    """Print the means of a result."""
    actor = summary.main_actor
    if actor is not None and actor.profilesets is not None:
        _print_ranking(console, actor, actor.profilesets.results)
        _print_rest(console, len(actor.profilesets.results), actor.profilesets.count, "profilesets")
    elif actor is None and summary.actors is not None:
        _print_actors(console, summary.actors.results)
        _print_rest(console, len(summary.actors.results), summary.actors.count, "actors")
    if actor is not None:
        metric = METRICS.get(summary.metric, summary.metric)
        console.line(f"{actor.name}: {with_error(actor.mean, actor.mean_error)} {metric}")
    for warning in summary.warnings or []:
        console.line(f"Warning: {warning}")
    if summary.partial:
        console.line("The run ended early: the figures are less exact than requested.")


def _print_ranking(console: Console, base: MainActor, profilesets: list[ProfilesetFigures]) -> None:
    """Print the profilesets with the profile's own figures among them."""
    columns = [
        Column("#", is_right=True),
        Column("Name", colours={f"{base.name} (baseline)": "yellow"}),
        Column("Mean", is_right=True),
        Column("±", is_right=True),
        Column("Change", is_right=True),
    ]
    listed: list[Ranked] = [base, *profilesets]
    entries = sorted(listed, key=lambda each: -each.mean)
    rows = [[str(place), *_ranking_cells(each, base)] for place, each in enumerate(entries, 1)]
    console.table(columns, rows)
    console.line()


def _ranking_cells(each: Ranked, base: MainActor) -> list[str]:
    figures = [whole(each.mean), whole(each.mean_error)]
    if each is base:
        return [f"{base.name} (baseline)", *figures, ""]
    return [each.name, *figures, change(each.mean, base.mean)]


def _print_actors(console: Console, actors: list[ActorFigures]) -> None:
    columns = [Column("Name"), Column("Mean", is_right=True), Column("±", is_right=True)]
    rows = [[each.name, whole(each.mean), whole(each.mean_error)] for each in actors]
    console.table(columns, rows)
    console.line()


def _print_rest(console: Console, listed: int, count: int, noun: str) -> None:
    if listed < count:
        console.line(f"The best {listed:,} of {count:,} {noun}.")
