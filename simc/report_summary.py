"""The summary of a report that the API shows."""

from collections.abc import Mapping
from typing import Any, Literal

from simc.reports import Report, Statistics

LISTED_RESULTS = 200


def summarise(
    report: Report, *, metric: Literal["dps", "raid_dps"], multistage: Mapping[str, Any], partial: bool
) -> dict[str, Any]:
    """Return the `summary` of a result, ready for JSON and jsonb (`docs/reference/api.md#result-summary`).

    `multistage` becomes `multiStage` unchanged. The main actor is the first actor. It is None if a profile has
    several actors and no profilesets, or if the first actor was not reached.
    """
    missed = report.not_reached
    several = len(report.players) + (missed.actors if missed else 0) > 1
    has_main_actor = report.baseline is not None and (not several or bool(report.profilesets))
    summary: dict[str, Any] = {
        "metric": metric,
        "mainActor": _main_actor(report, metric=metric) if has_main_actor else None,
        "multiStage": dict(multistage),
    }
    if several:
        listed = report.players[:LISTED_RESULTS]
        actors = [{"name": player.name, **_figures(player.dps)} for player in listed]
        summary["actors"] = {"count": len(report.players), "results": actors}
    if not multistage["enabled"]:
        summary["iterations"] = report.iterations
    if partial:
        summary["partial"] = True
    if missed and (missed.actors or missed.profilesets):
        summary["not_reached"] = {"actors": missed.actors, "profilesets": missed.profilesets}
    return summary


def _main_actor(report: Report, *, metric: Literal["dps", "raid_dps"]) -> dict[str, Any]:
    player = report.players[0]
    statistics = report.raid_dps if metric == "raid_dps" else player.dps
    actor: dict[str, Any] = {"name": player.name, **_figures(statistics)}
    if report.profilesets:
        ranking = sorted(report.profilesets, key=lambda profileset: -profileset.statistics.mean)
        results = [
            {"name": entry.name, **_figures(entry.statistics), "stage": entry.stage}
            for entry in ranking[:LISTED_RESULTS]
        ]
        actor["profilesets"] = {"count": len(ranking), "results": results}
    if player.talents:
        actor["talents"] = player.talents
    if player.gear:
        actor["gear"] = list(player.gear)
    return actor


def _figures(statistics: Statistics) -> dict[str, float]:
    return {
        "mean": statistics.mean,
        "mean_error": statistics.mean_error,
        "mean_stddev": statistics.mean_stddev,
        "stddev": statistics.stddev,
        "min": statistics.min,
        "max": statistics.max,
    }
