"""Compare the extracted details with whole reports: `python -m tests.simc.details_check FILES`.

The reports are read with the `json` module, and compared without the service's own code: what details say is looked
up in the report, and what the report says must be in the details.
"""

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simc.report_reader import read_report

MAX_BYTES = 1 << 30


class Check:
    """Counts the numbers that were compared, and collects those that differ."""

    def __init__(self) -> None:
        self.compared = 0
        self.problems: list[str] = []

    def same(self, what: str, found: Any, expected: Any) -> None:
        """Compare two values; numbers may differ by rounding."""
        self.compared += 1
        numbers = isinstance(found, int | float) and isinstance(expected, int | float)
        if not (math.isclose(found, expected, rel_tol=1e-7, abs_tol=1e-9) if numbers else found == expected):
            self.problems.append(f"{what}: {found!r}, not {expected!r}")


def damaging(entries: Any) -> list[Any]:
    """Return the abilities of a report that do damage, the largest first."""
    found = [
        entry for entry in entries or [] if entry.get("type", "damage") == "damage" and entry["compound_amount"]
    ]
    return sorted(found, key=lambda entry: -entry["compound_amount"])


def flat(entry: Any) -> Iterator[Any]:
    """Yield an ability of a report and everything below it."""
    yield entry
    for child in damaging(entry.get("children")):
        yield from flat(child)


def results(entry: Any) -> list[tuple[str, float]]:
    """Return the names and numbers of an ability's own results."""
    blocks = (entry.get("direct_results", {}), entry.get("tick_results", {}))
    return [(name, result["count"]["mean"]) for block in blocks for name, result in block.items()]


def check_abilities(check: Check, found: Any, expected: Any, *, total: float, rate: str) -> None:
    """Compare abilities with those of a report. `rate` is where an ability's own DPS is."""
    check.same("number of abilities", len(found), len(expected))
    for ours, theirs in zip(found, expected, strict=False):
        name = theirs["name"]
        check.same(f"{name} name", {ours["name"]} <= {name, theirs.get("spell_name")}, expected=True)
        check.same(f"{name} id", ours.get("id"), theirs.get("id") or None)
        check.same(f"{name} school", ours.get("school"), theirs.get("school"))
        check.same(f"{name} executes", ours["executes"], theirs["num_executes"]["mean"])
        check.same(f"{name} share", ours["share"], theirs["compound_amount"] / total)
        rates = [each[rate]["mean"] for each in flat(theirs) if rate in each]
        check.same(f"{name} dps", ours["dps"], math.fsum(rates))
        check_hits(check, ours, theirs)
        children = damaging(theirs.get("children"))
        check_abilities(check, ours.get("children", []), children, total=total, rate=rate)


def check_hits(check: Check, ours: Any, theirs: Any) -> None:
    """Compare the hits of an ability: its own, or those of the nearest abilities below that have some."""
    level = [theirs]
    while level and not any(map(results, level)):
        level = [child for entry in level for child in damaging(entry.get("children"))]
    numbers = [number for entry in level for number in results(entry)]
    hits = math.fsum(number for _, number in numbers)
    crits = math.fsum(number for name, number in numbers if "crit" in name)
    damage = math.fsum(entry["actual_amount"]["mean"] for entry in level if results(entry))
    check.same(f"{theirs['name']} hits", ours.get("hits", 0), hits)
    if hits:
        check.same(f"{theirs['name']} average", ours["average"], damage / hits)
        check.same(f"{theirs['name']} crit", ours["critPercent"], 100 * crits / hits)


def check_pets(check: Check, found: Any, player: Any, *, total: float) -> None:
    """Compare pets with those of a report."""
    pets = {name: damaging(entries) for name, entries in player.get("stats_pets", {}).items()}
    check.same("pets", sorted(each["name"] for each in found), sorted(name for name in pets if pets[name]))
    for pet in found:
        amounts = [entry["compound_amount"] for entry in pets[pet["name"]]]
        check.same(f"{pet['name']} share", pet["share"], math.fsum(amounts) / total)
        check_abilities(check, pet["children"], pets[pet["name"]], total=total, rate="portion_apse")


def check_buffs(check: Check, found: Any, player: Any, targets: Any) -> None:
    """Compare buffs and debuffs with those of a report."""
    expected = {(buff["name"], False): buff for buff in player.get("buffs", []) if buff.get("uptime")}
    for target in reversed(targets):
        for buff in target.get("buffs", []):
            if buff.get("uptime") and buff.get("source", player["name"]) == player["name"]:
                expected[buff["name"], True] = buff
    check.same("number of buffs", len(found), len(expected))
    uptimes = sorted((buff["uptime"] for buff in expected.values()), reverse=True)
    for ours, uptime in zip(found, uptimes, strict=False):
        check.same("uptimes in order", ours["uptime"], min(uptime, 100.0))
    for (name, is_debuff), buff in expected.items():
        names = (name, buff.get("spell_name"))
        ours = [each for each in found if each["name"] in names and each["debuff"] == is_debuff]
        check.same(f"{name} count", [each["count"] for each in ours], [buff["start_count"]])


def check_numbers(check: Check, found: Any, collected: Any, player: Any) -> None:
    """Compare the damage over time, resources and stats with those of a report."""
    timeline = collected["timeline_dmg"]["data"]
    check.same("step", found["damage"]["step"], 1)
    check.same("damage over time", found["damage"]["values"], [round(value, 2) for value in timeline])
    for resource in found.get("resources", []):
        name = resource["name"]
        check.same(f"{name} lost", resource["lost"], collected["resource_lost"][name]["mean"])
        check.same(f"{name} overflowed", resource["overflowed"], collected["resource_overflowed"][name]["mean"])
        check.same(f"{name} end", resource.get("end"), collected["combat_end_resource"].get(name, {}).get("mean"))
        gained = [gain[name]["actual"] for gain in player["gains"] if name in gain]
        check.same(f"{name} gained", resource.get("gained", 0), math.fsum(gained))
    check.same("resources", {each["name"] for each in found["resources"]}, set(collected["resource_lost"]))
    check.same("stats", found["stats"], {key: block for key, block in collected["buffed_stats"].items() if block})


def check_weights(check: Check, found: Any, player: Any, options: Any) -> None:
    """Compare the weights of an actor with those of a report, and their errors with the engine's formula."""
    factors = {stat: factor for stat, factor in player.get("scale_factors", {}).items() if factor}
    ours = {each["stat"]: each for each in found.get("weights", {}).get("stats", [])}
    check.same("weights", {stat: each["weight"] for stat, each in ours.items()}, factors)
    if not factors:
        return
    check.same("metric", found["weights"]["metric"], options.get("scale_over", "dps"))
    check.same("order", [*ours], sorted(ours, key=lambda stat: -abs(factors[stat])))
    margin = 1.96 * player["collected_data"]["dps"]["mean_std_dev"]
    for stat, each in ours.items():
        delta = player["scale_deltas"][stat]
        error = math.sqrt(margin**2 + margin**2) / abs(delta)
        check.same(f"{stat} error", each["error"], error / 10 if abs(delta) < 1 else error)


def check_plots(check: Check, found: Any, plots: Any) -> None:
    """Compare the curves of an actor with those of a report."""
    data: list[Any] = next((each["data"] for each in plots if each["name"] == found["name"]), [])
    curves = {stat: points for each in data for stat, points in each.items() if points}
    ours = {each["stat"]: each["points"] for each in found.get("plots", [])}
    check.same("curves", [*ours], [*curves])
    for stat, points in curves.items():
        expected = [(point["rating"], point["dps"], point["dps-error"]) for point in points]
        check.same(stat, [(point["change"], point["dps"], point["error"]) for point in ours[stat]], expected)


def check_actor(check: Check, found: Any, player: Any, targets: Any) -> None:
    """Compare an actor with that of a report."""
    collected = player["collected_data"]
    for name in ("mean", "min", "max", "median"):
        check.same(f"dps {name}", found["dps"][name], collected["dps"][name])
    for name in ("mean", "min", "max"):
        check.same(f"fight length {name}", found["fightLength"][name], collected["fight_length"][name])
    check.same("dps stddev", found["dps"]["stddev"], collected["dps"]["std_dev"])
    check.same("dps error", found["dps"]["error"], 1.96 * collected["dps"]["mean_std_dev"])
    total = collected["compound_dmg"]["mean"]
    own = [ability for ability in found["abilities"] if not ability.get("pet")]
    check_abilities(check, own, damaging(player["stats"]), total=total, rate="portion_aps")
    check_pets(check, [each for each in found["abilities"] if each.get("pet")], player, total=total)
    check.same("sum of shares", math.fsum(each["share"] for each in found["abilities"]), 1.0)
    check.same("sum of dps", math.fsum(each["dps"] for each in found["abilities"]), collected["dps"]["mean"])
    check_buffs(check, found.get("buffs", []), player, targets)
    check_numbers(check, found, collected, player)
    check.same("talents", found.get("talents", ""), player["talents"])
    slots = [item["name"] for item in player["gear"].values()]
    check.same("gear", sorted(item["name"] for item in found.get("gear", [])), sorted(slots))


def check_fight(check: Check, found: Any, options: Any) -> None:
    """Compare the fight with the options of a report."""
    keys = {
        "style": "fight_style",
        "targets": "desired_targets",
        "length": "max_time",
        "variation": "vary_combat_length",
        "iterations": "iterations",
        "targetError": "target_error",
    }
    for ours, theirs in keys.items():
        check.same(ours, found[ours], options[theirs])
    dbc = options["dbc"]
    check.same("game version", found["gameVersion"], dbc[dbc["version_used"]]["wow_version"])


def extracted(path: Path) -> Any:
    """Return the details that the service extracts from a report."""
    with path.open("rb") as stream:
        return read_report(stream, max_bytes=MAX_BYTES, with_details=True).details


def check_report(path: Path, details: Any) -> Check:
    """Compare details with their report."""
    check = Check()
    sim = json.loads(path.read_bytes())["sim"]
    check_fight(check, details["fight"], sim["options"])
    check.same("actors", [actor["name"] for actor in details["actors"]], [each["name"] for each in sim["players"]])
    for found, player in zip(details["actors"], sim["players"], strict=False):
        # Small samples have no details beside weights and plots.
        if "compound_dmg" in player["collected_data"]:
            check_actor(check, found, player, sim.get("targets", []))
        check_weights(check, found, player, sim["options"].get("scaling", {}))
        check_plots(check, found, sim.get("dps_plot", []))
    return check


if __name__ == "__main__":
    sys.exit(
        "\n".join(
            text for name in sys.argv[1:] for text in check_report(Path(name), extracted(Path(name))).problems
        )
    )
