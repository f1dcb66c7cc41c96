"""The stat weights of a result, and which stats have plots."""

from simservice_client.cli.console import Column, Console
from simservice_client.cli.formats import UNKNOWN
from simservice_client.models import ActorDetails, JobResult, StatWeight, StatWeights


def has_weights(result: JobResult) -> bool:
    """Return whether the details of a result have stat weights or plots."""
    return result.summary is not None and bool(result.summary.additional_fights)


def print_weights(console: Console, result: JobResult) -> None:
    """Print the stat weights of each actor, the largest first."""
    details = result.result.details
    for actor in details.actors if details is not None else []:
        if actor.weights is not None:
            console.line()
            _print_weights(console, actor, actor.weights)
        if actor.plots:
            stats = ", ".join(plot.name for plot in actor.plots)
            console.line(f"{actor.name or UNKNOWN}: plots of {stats}; see the share link.")


def _print_weights(console: Console, actor: ActorDetails, weights: StatWeights) -> None:
    unit = "in the report" if weights.normalized else f"{weights.metric.upper()} per point"
    console.line(f"{actor.name or UNKNOWN}: stat weights")
    columns = [
        Column("Stat"),
        Column("Relative", is_right=True),
        Column(unit, is_right=True),
        Column("±", is_right=True),
    ]
    strongest = max((abs(each.weight) for each in weights.stats), default=0.0)
    console.table(columns, [_cells(each, strongest) for each in weights.stats])
    if weights.pawn:
        console.line(weights.pawn)


def _cells(each: StatWeight, strongest: float) -> list[str]:
    relative = f"{each.weight / strongest:.2f}" if strongest else UNKNOWN
    return [each.name, relative, f"{each.weight:,.2f}", UNKNOWN if each.error is None else f"{each.error:,.2f}"]
