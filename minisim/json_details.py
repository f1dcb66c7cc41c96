"""Details of an actor in the JSON report: abilities, buffs, damage over time, resources and stats.

See `docs/reference/simulator-command-line.md#details-of-an-actor`.
"""

from typing import Any

from minisim.record import Record
from minisim.sheet import Sheet
from minisim.simulation import ActorResult

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
REGENERATION = 5.0
"""Per second; more than casts cost, so the pool stays full and the rest overflows."""


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
