"""The report in plain text, the end of standard output.

See `docs/reference/simulator-command-line.md#standard-output`.
"""

from minisim.settings import METRICS
from minisim.simulation import ActorResult, Outcome
from minisim.values import percent


def render(outcome: Outcome) -> str:
    """Return the text report."""
    blocks = [_ranking(outcome), *(_player(actor, outcome) for actor in outcome.baseline.actors)]
    if outcome.profilesets:
        blocks.append(_profilesets(outcome))
    return "\n\n".join([*blocks, _performance(outcome)]) + "\n"


def _ranking(outcome: Outcome) -> str:
    raid = outcome.baseline.raid_dps.mean
    ranked = sorted(outcome.baseline.actors, key=lambda actor: -actor.dps.mean)
    rows = [f"{actor.dps.mean:7.0f}  {percent(actor.dps.mean, raid):.1f}%  {actor.actor.name}" for actor in ranked]
    return "\n".join(["DPS Ranking:", f"{raid:7.0f} 100.0%  Raid", *rows])


def _player(result: ActorResult, outcome: Outcome) -> str:
    options, sheet, dps = result.actor.options, result.sheet, result.dps
    error = dps.mean_std_dev * outcome.baseline.settings.confidence_estimator
    lowest, highest = dps.range()
    race, spec = options.get("race", "none"), options.get("spec", "unknown")
    lines = (
        f"Player: {result.actor.name} {race} {result.actor.kind} {spec} {sheet.level}\n"
        f"  DPS={dps.mean} DPS-Error={error}/{percent(error, dps.mean):.2f}%"
        f" DPS-Range={highest - lowest}/{percent(highest - lowest, dps.mean):.2f}%\n"
        f"  Generic Stats: power={sheet.power:.0f}  crit={sheet.crit:.2%}  haste={sheet.haste:.2%}"
        f"  mastery={sheet.mastery:.2%}  versatility={sheet.versatility:.2%}\n"
        "  Actions:\n"
    )
    return lines + "\n".join(_abilities(result))


def _abilities(result: ActorResult) -> list[str]:
    totals, fights = result.abilities, result.dps.count
    whole = float(totals.damage.sum())
    return [
        f"    {name:<30} Count={count / fights:6.1f}  Damage={damage / fights:14.0f} "
        f"|{percent(damage, whole):5.2f}%"
        for name, count, damage in zip(totals.names, totals.counts, totals.damage, strict=True)
    ]


def _profilesets(outcome: Outcome) -> str:
    ranked = sorted(outcome.profilesets, key=lambda result: -result.median)
    metric = METRICS[outcome.baseline.settings.primary_metric]
    return "\n".join(
        [f"Profilesets (median {metric}):", *(f"    {result.median:10.3f} : {result.name}" for result in ranked)]
    )


def _performance(outcome: Outcome) -> str:
    baseline = outcome.baseline
    return "\n".join(
        [
            "Baseline Performance:",
            "  Simulator     = minisim",
            "  Networking    = disabled",
            f"  Iterations    = {baseline.iterations}",
            f"  TotalEvents   = {outcome.events}",
            f"  SimSeconds    = {baseline.lengths.mean * baseline.iterations:.3f}",
            f"  CpuSeconds    = {outcome.cpu_seconds:.6f}",
            f"  WallSeconds   = {outcome.wall_seconds:.6f}",
        ]
    )
