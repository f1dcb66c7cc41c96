"""The JSON report, in version 2 of the real simulator's layout.

See `docs/reference/simulator-command-line.md#json-report`. As in the real simulator, version 3 differs only in
`report_version`.
"""

import json
import time
from dataclasses import asdict
from typing import Any

from minisim import GAME_VERSION, VERSION
from minisim.combat import Record
from minisim.samples import Samples
from minisim.scaling import DELTA, Scaling, scales_with
from minisim.settings import FIGHT_STYLES, METRICS, JsonTarget
from minisim.sheet import Item, Sheet
from minisim.simulation import ActorResult, Outcome

_BUILD = int(GAME_VERSION.rpartition(".")[2])
_DBC = {
    "Live": {
        "build_level": _BUILD,
        "wow_version": GAME_VERSION,
        "hotfix_date": "2025-09-04",
        "hotfix_build": _BUILD,
    },
    "version_used": "Live",
}


def render(outcome: Outcome, target: JsonTarget) -> str:
    """Return the report as JSON. Raises ValueError for a number that JSON cannot represent."""
    indent = 2 if target.pretty_print else None
    return json.dumps(_report(outcome, target.report_version), indent=indent, allow_nan=False)


def _report(outcome: Outcome, report_version: str) -> dict[str, Any]:
    report = {
        "simulator": "minisim",
        "version": f"minisim-{VERSION}",
        "report_version": report_version,
        "ptr_enabled": 0,
        "beta_enabled": 0,
        "timestamp": int(time.time()),
        "no_networking": True,
        "sim": _sim(outcome),
    }
    if logs := [{"level": "trivial", "message": message} for message in outcome.warnings]:
        report["logs"] = logs
    return report


def _sim(outcome: Outcome) -> dict[str, Any]:
    sim: dict[str, Any] = {
        "options": _options(outcome),
        "overrides": {},
        "players": [_player(actor, outcome) for actor in outcome.baseline.actors],
        "targets": [{"name": name} for name in outcome.baseline.enemies],
        "statistics": _statistics(outcome),
    }
    if outcome.baseline.settings.dps_plot_stat and outcome.scaling:
        sim["dps_plot"] = [_curves(actor.actor.name, outcome.scaling) for actor in outcome.baseline.actors]
    if outcome.finished_profilesets:
        metric = METRICS[outcome.baseline.settings.primary_metric]
        sim["profilesets"] = {"metric": metric, "results": [asdict(result) for result in outcome.profilesets]}
    return sim


def _curves(name: str, scaling: Scaling) -> dict[str, Any]:
    curves = scaling.curves.get(name, {})
    return {
        "name": name,
        "data": [
            {stat: [{"rating": points, "dps": each.mean, "dps-error": each.error} for points, each in curve]}
            for stat, curve in curves.items()
        ],
    }


def _factors(name: str, outcome: Outcome) -> dict[str, Any]:
    """Return the scale factors of an actor. Stats that were not simulated are zero."""
    scaling = outcome.scaling
    if not outcome.baseline.settings.calculate_scale_factors or not scaling:
        return {}
    player = next(each.actor for each in outcome.baseline.actors if each.actor.name == name)
    found = scaling.factors.get(name, {})
    factors = {stat: found.get(stat, 0.0) for stat in scales_with(player)}
    deltas = {stat: scaling.deltas.get(stat, DELTA) for stat in factors}
    return {"scale_factors": factors, "scale_factors_all": {"dps": factors}, "scale_deltas": deltas}


def _options(outcome: Outcome) -> dict[str, Any]:
    settings = outcome.baseline.settings
    return {
        "iterations": outcome.baseline.iterations,
        "target_error": settings.target_error,
        "threads": settings.threads,
        "seed": settings.seed,
        "max_time": settings.max_time,
        "expected_iteration_time": settings.max_time,
        "vary_combat_length": settings.vary_combat_length,
        "fixed_time": settings.fixed_time,
        "fight_style": FIGHT_STYLES[settings.fight_style][0],
        "desired_targets": settings.desired_targets,
        "single_actor_batch": False,
        "deterministic": int(settings.deterministic),
        "optimal_raid": 1,
        "confidence": settings.confidence,
        "confidence_estimator": settings.confidence_estimator,
        "profileset_metric": settings.primary_metric,
        "rng": {"name": "PCG64"},
        "dbc": _DBC,
        **(
            {"scaling": {"calculate_scale_factors": True, "normalize_scale_factors": 0}}
            if settings.calculate_scale_factors
            else {}
        ),
    }


def _player(result: ActorResult, outcome: Outcome) -> dict[str, Any]:
    options = result.actor.options
    mean_seconds = outcome.baseline.lengths.mean
    damage = _damage(result.dps, outcome)
    return {
        "name": result.actor.name,
        "race": options.get("race", "none"),
        "level": result.sheet.level,
        "role": options.get("role", "auto"),
        "specialization": f"{options.get('spec', 'unknown')} {result.actor.kind}".replace("_", " ").title(),
        "talents": options.get("talents", ""),
        "party": 1,
        "dbc": _DBC,
        **_factors(result.actor.name, outcome),
        "collected_data": {
            "fight_length": _statistic(outcome.baseline.lengths),
            # Without damage, the report lacks these.
            **({"dmg": damage, "compound_dmg": damage, "dps": _statistic(result.dps)} if result.dps.mean else {}),
            **of_collected_data(result, mean_seconds=mean_seconds),
        },
        **of_actor(result, mean_seconds=mean_seconds),
        "gear": {slot: _item(item) for slot, item in result.sheet.gear.items()},
        "custom": {},
    }


def _item(item: Item) -> dict[str, Any]:
    ratings = {f"{name}_rating": round(points) for name, points in item.ratings.items() if points}
    return {"name": item.name, "encoded_item": item.encoded, "ilevel": item.ilevel, **ratings}


def _statistics(outcome: Outcome) -> dict[str, Any]:
    raid = outcome.baseline.raid_dps
    return {
        "elapsed_cpu_seconds": outcome.cpu_seconds,
        "elapsed_time_seconds": outcome.wall_seconds,
        "simulation_length": _statistic(outcome.baseline.lengths),
        "total_events_processed": outcome.events,
        "raid_dps": _statistic(raid) if raid.mean else {},
        "total_dmg": _damage(raid, outcome) if raid.mean else {},
    }


def _statistic(samples: Samples) -> dict[str, float]:
    lowest, highest = samples.range()
    return {
        "sum": samples.mean * samples.count,
        "count": samples.count,
        "mean": samples.mean,
        "min": lowest,
        "max": highest,
        "median": samples.quartiles()[1],
        "variance": samples.std_dev**2,
        "std_dev": samples.std_dev,
        "mean_variance": samples.mean_std_dev**2,
        "mean_std_dev": samples.mean_std_dev,
    }


def _damage(dps: Samples, outcome: Outcome) -> dict[str, float]:
    damage = dps.values() * outcome.baseline.lengths.values()
    return {
        "sum": float(damage.sum()),
        "count": dps.count,
        "mean": float(damage.mean()),
        "min": float(damage.min()),
        "max": float(damage.max()),
    }


_SCHOOLS = {
    "death_knight": "frost", "druid": "nature", "evoker": "fire", "mage": "frost", "paladin": "holy",
    "priest": "holy", "shaman": "nature", "warlock": "shadow",
}  # fmt: skip
_RESOURCES = {
    "death_knight": "runic_power", "demon_hunter": "fury", "hunter": "focus", "monk": "energy", "rogue": "energy",
    "warrior": "rage",
}  # fmt: skip
POOL = 100.0
CAST_COST = 4.0
REGENERATION = 5.0  # Per second; more than casts cost, so the pool stays full and the rest overflows.


def of_actor(result: ActorResult, *, mean_seconds: float) -> dict[str, Any]:
    """Return the parts of an actor beside `collected_data`."""
    record = result.record
    if record is None:
        return {}
    resource, used, overflow = _resource(result, mean_seconds)
    gain = {"actual": used, "overflow": overflow, "count": mean_seconds}
    return {
        "buffs": [
            _buff("cooldowns", record.window_percent, record.windows, record.fights),
            _buff("proc", record.proc_percent, record.procs, record.fights),
        ],
        "buffs_constant": [],
        "gains": [{"name": f"{resource}_regeneration", resource: gain}],
        "stats": _abilities(result, record),
        "stats_pets": {},
    }


def of_collected_data(result: ActorResult, *, mean_seconds: float) -> dict[str, Any]:
    """Return the parts of `collected_data` beside the metrics."""
    if result.record is None:
        return {}
    resource, used, overflow = _resource(result, mean_seconds)
    data = result.record.damage_over_time()
    return {
        "timeline_dmg": {"mean": sum(data) / len(data), "min": min(data), "max": max(data), "data": data},
        "buffed_stats": _stats(result.sheet, resource),
        "resource_lost": {resource: {"mean": used}},
        "resource_overflowed": {resource: {"mean": overflow}},
        "combat_end_resource": {resource: {"mean": POOL}},
    }


def _buff(name: str, percent: float, starts: float, fights: int) -> dict[str, Any]:
    return {"name": name, "spell_name": "", "start_count": starts / fights, "uptime": percent / fights}


def _abilities(result: ActorResult, record: Record) -> list[dict[str, Any]]:
    """Return the abilities. Actions and procs hit directly; the passive ability of casters ticks."""
    totals, fights = result.abilities, record.fights
    whole = totals.damage.sum()
    abilities = []
    for index, name in enumerate(totals.names):
        count, crits = totals.counts[index] / fights, record.crits[index] / fights
        amount = totals.damage[index] / fights
        results = {"hit": _result(count - crits, count), "crit": _result(crits, count)}
        is_tick = index == len(totals.names) - 1 and name == "damage_over_time"
        abilities.append(
            {
                "name": name,
                "school": _SCHOOLS.get(result.actor.kind, "physical"),
                "type": "damage",
                "num_executes": {"mean": count},
                "compound_amount": amount,
                "actual_amount": {"mean": amount},
                "portion_aps": {"mean": record.dps[index] / fights},
                "portion_amount": amount * fights / whole if whole else 0.0,
                "tick_results" if is_tick else "direct_results": results,
            }
        )
    return abilities


def _result(number: float, total: float) -> dict[str, Any]:
    return {"count": {"mean": number}, "pct": 100 * number / total if total else 0.0}


def _resource(result: ActorResult, mean_seconds: float) -> tuple[str, float, float]:
    """Return the name of an actor's resource, how much a fight costs, and how much regeneration overflows."""
    casts = float(result.abilities.counts[: len(result.sheet.actions)].sum()) / result.dps.count
    used = casts * CAST_COST
    return _RESOURCES.get(result.actor.kind, "mana"), used, max(mean_seconds * REGENERATION - used, 0.0)


def _stats(sheet: Sheet, resource: str) -> dict[str, dict[str, float]]:
    return {
        "attribute": {"primary": sheet.power},
        "resources": {resource: POOL},
        "stats": {
            "crit_pct": sheet.crit,
            "haste_pct": sheet.haste,
            "mastery_pct": sheet.mastery,
            "versatility_pct": sheet.versatility,
        },
    }
