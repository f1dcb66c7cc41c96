"""The figures of a result: the ranking of its profilesets, or its actors."""

from simservice_client.cli.console import Column, Console
from simservice_client.cli.formats import margin_between, state, whole, with_error, with_margin
from simservice_client.cli.weights import print_weights
from simservice_client.models import ActorFigures, JobResult, MainActor, ProfilesetFigures

Ranked = MainActor | ProfilesetFigures
METRICS = {"dps": "DPS", "raid_dps": "raid DPS"}


def print_result(console: Console, result: JobResult) -> None:
    """Print a job's figures, best first, and its main facts."""
    print_figures(console, result)
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


def print_figures(console: Console, result: JobResult) -> None:
    """Print the means of a result and its verdict."""
    summary, verdict = result.summary, result.verdict
    if summary is None:
        return
    actor = summary.main_actor
    if actor is not None and actor.profilesets is not None:
        _print_ranking(console, actor, actor.profilesets.results, factor=verdict.factor if verdict else 1.0)
        _print_rest(console, len(actor.profilesets.results), actor.profilesets.count, "profilesets")
    elif actor is None and summary.actors is not None:
        _print_actors(console, summary.actors.results)
        _print_rest(console, len(summary.actors.results), summary.actors.count, "actors")
    if actor is not None:
        metric = METRICS.get(summary.metric, summary.metric)
        console.line(f"{actor.name}: {with_error(actor.mean, actor.mean_error)} {metric}")
    if verdict is not None and verdict.kind != "no_variants":
        console.line(verdict.text)
    for warning in summary.warnings or []:
        console.line(f"Warning: {warning}")
    if summary.partial:
        console.line("The run ended early: the figures are less exact than requested.")


def _print_ranking(
    console: Console, base: MainActor, profilesets: list[ProfilesetFigures], *, factor: float
) -> None:
    """Print the profilesets with the profile's own figures among them. `factor` widens the margins of changes."""
    columns = [
        Column("#", is_right=True),
        Column("Name", colours={f"{base.name} (baseline)": "yellow"}),
        Column("Mean", is_right=True),
        Column("±", is_right=True),
        Column("Change", is_right=True),
    ]
    listed: list[Ranked] = [base, *profilesets]
    entries = sorted(listed, key=lambda each: -each.mean)
    rows = [[str(place), *_ranking_cells(each, base, factor)] for place, each in enumerate(entries, 1)]
    console.table(columns, rows)
    console.line()


def _ranking_cells(each: Ranked, base: MainActor, factor: float) -> list[str]:
    figures = [whole(each.mean), whole(each.mean_error)]
    if each is base:
        return [f"{base.name} (baseline)", *figures, ""]
    margin = margin_between(each, base, factor=factor)
    return [each.name, *figures, with_margin(each.mean, base.mean, margin=margin)]


def _print_actors(console: Console, actors: list[ActorFigures]) -> None:
    columns = [Column("Name"), Column("Mean", is_right=True), Column("±", is_right=True)]
    rows = [[each.name, whole(each.mean), whole(each.mean_error)] for each in actors]
    console.table(columns, rows)
    console.line()


def _print_rest(console: Console, listed: int, count: int, noun: str) -> None:
    if listed < count:
        console.line(f"The best {listed:,} of {count:,} {noun}.")
