"""What pages show of a job's details: breakdown, damage over time, buffs, stats, gear, actors."""

from typing import Any

import pytest

from dashboard.results import names
from dashboard.results.actor import MAX_BUFFS, MAX_ITEMS, ActorView
from dashboard.results.breakdown import MAX_PARTS, MAX_ROWS, OPEN_ROWS, Breakdown
from dashboard.results.damage_chart import MAX_POINTS, DamageChart, short
from jobs.results.details import Ability, Actor, Buff, Details, Dps, Fight, Stats, Timeline
from tests.dashboard.summaries import figures, result_of, summary

PET = Ability(name="Wolf", pet=True, share=0.4, dps=40.0, children=(Ability(name="Bite", share=0.4),))
ABILITIES = (
    Ability(name="Bolt", school="frost", share=0.5, dps=50.0, crit_percent=20.0),
    PET,
    Ability(name="Auto", share=0.1, dps=10.0, hits=90.0),
)


def view_of(query: str = "", **fields: Any) -> ActorView:
    """Return the view of one actor with details."""
    details = Details(fight=Fight(), actors=(Actor(name="Frosty", **fields),))
    view = result_of(summary(), query, details=details).view
    assert view is not None
    return view


def breakdown_of(abilities: tuple[Ability, ...], query: str = "") -> Breakdown:
    breakdown = view_of(query, abilities=abilities).breakdown
    assert breakdown is not None
    return breakdown


def chart_of(*values: float, step: float = 1.0) -> DamageChart | None:
    return view_of(damage=Timeline(step=step, values=values)).chart


def test_pets_are_folded_into_one_row() -> None:
    bolt, wolf, _ = breakdown_of(ABILITIES).rows
    assert (bolt.width, bolt.school, wolf.width) == ("100.0%", "frost", "80.0%")
    assert (wolf.ability.pet, [part.name for part in wolf.parts]) == (True, ["Bite"])


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("share", ["Bolt", "Wolf", "Auto"]),
        ("name", ["Auto", "Bolt", "Wolf"]),
        ("hits", ["Auto", "Bolt", "Wolf"]),
        ("crit", ["Bolt", "Wolf", "Auto"]),
        ("password", ["Bolt", "Wolf", "Auto"]),
    ],
)
def test_abilities_can_be_sorted(by: str, expected: list[str]) -> None:
    assert [row.name for row in breakdown_of(ABILITIES, f"by={by}").rows] == expected


def test_the_rest_is_folded_and_bounded() -> None:
    parts = (Ability(name="part"),) * (MAX_PARTS - 1)
    breakdown = breakdown_of((Ability(name="x", share=0.001, children=parts),) * (MAX_ROWS + 3))
    assert (len(breakdown.rows), len(breakdown.folded), breakdown.left_out) == (OPEN_ROWS, MAX_ROWS - OPEN_ROWS, 3)
    assert [len(row.parts) for row in breakdown.rows[:3]] == [MAX_PARTS - 1, 1, 0]


@pytest.mark.parametrize("share", [None, 0.0, -1.0], ids=str)
def test_an_unknown_share_has_no_bar(share: float | None) -> None:
    (row,) = breakdown_of((Ability(name="", share=share),)).rows
    assert (row.name, row.width) == ("Unnamed", "0.0%")


def test_damage_over_time_has_axes_and_values() -> None:
    chart = chart_of(*[10_000.0] * 90, 40_000.0, *[10_000.0] * 29)
    assert chart is not None
    assert [label.text for label in chart.rows] == ["0", "10k", "20k", "30k", "40k"]
    assert [label.text for label in chart.columns][:2] == ["0:00", "0:15"]
    assert (chart.peak, chart.peak_at, chart.values[0]) == (40_000.0, "1:30", ("0:00", 10_000.0))
    assert chart.line.startswith("M4 150L")


def test_a_long_fight_is_reduced() -> None:
    chart = chart_of(*[1.0] * (MAX_POINTS * 2))
    assert chart is not None
    assert (chart.line.count("L"), chart.interval) == (MAX_POINTS - 1, 2.0)


@pytest.mark.parametrize("values", [(), (0.0, 0.0), (-5.0,)], ids=str)
def test_a_fight_without_damage_has_no_chart(values: tuple[float, ...]) -> None:
    assert chart_of(*values) is None


@pytest.mark.parametrize("values", [(1e300, 1e308), (1e-300,), (5.0, -1e9)], ids=str)
def test_extreme_damage_stays_inside_the_picture(values: tuple[float, ...]) -> None:
    chart = chart_of(*values)
    assert chart is not None
    heights = [float(point.split()[1]) for point in chart.line[1:].split("L")]
    assert all(0 <= height <= 200 for height in heights)


def test_the_words_about_damage_agree_with_the_picture() -> None:
    chart = chart_of(*[1.0] * MAX_POINTS, 3.0, 5.0, *[1.0] * (MAX_POINTS - 2))
    assert chart is not None
    assert (chart.peak, chart.peak_at) == (4.0, "6:40")


def test_the_mean_is_inside_the_picture() -> None:
    chart = view_of(damage=Timeline(step=1.0, values=(9.0,)), dps=Dps(mean=90.0)).chart
    assert chart is not None
    assert chart.mean_y > 0


def test_axis_labels_are_short() -> None:
    assert [short(value) for value in (0, 250, 2500, 25_000, 1.5e6, 2e9)] == [
        "0",
        "250",
        "2.5k",
        "25k",
        "1.5M",
        "2B",
    ]


def test_buffs_and_items_are_bounded() -> None:
    view = view_of(buffs=(Buff(uptime=1.0),) * 500, gear=({"slot": "head"},) * 500)
    assert (len(view.buffs) + len(view.folded_buffs), len(view.gear)) == (MAX_BUFFS, MAX_ITEMS)


def test_buffs_without_an_uptime_are_left_out() -> None:
    view = view_of(buffs=(*[Buff(name=f"buff {number}", uptime=50.0) for number in range(12)], Buff(name="x")))
    assert (len(view.buffs), len(view.folded_buffs)) == (10, 2)


def test_stats_have_their_ratings() -> None:
    stats = Stats(attribute={"intellect": 402.0}, stats={"crit_pct": 0.333, "crit_rating": 173.0, "haste_pct": 0.1})
    found = [(stat.label, stat.value, stat.rating) for stat in view_of(stats=stats).stats]
    assert found == [("Intellect", "402", ""), ("Critical strike", "33.3 %", "173"), ("Haste", "10.0 %", "")]


def test_gear_is_listed_by_slot() -> None:
    gear = (
        {
            "slot": "finger1",
            "name": "the_ring",
            "id": 7,
            "ilevel": 600,
            "gemIds": [1, 2],
            "enchantId": 3,
            "craftedStatIds": [36],
        },
    )
    view = view_of(gear=gear, talents="ABC")
    (item,) = view.gear
    assert (item.slot, item.name, item.level, item.gems, item.enchant) == ("Ring 1", "The Ring", 600, "1, 2", "3")
    assert (view.item_level, view.talents, item.crafted_stats) == (600.0, "ABC", "36")


def test_an_older_job_shows_gear_and_talents_of_its_summary() -> None:
    view = result_of(summary(gear=[{"slot": "head", "name": "Hood"}], talents="ABC")).view
    assert view is not None
    assert ([item.name for item in view.gear], view.talents, view.breakdown) == (["Hood"], "ABC", None)


@pytest.mark.parametrize(
    ("class_name", "specialization", "expected"),
    [
        ("mage", "Frost Mage", ("mage", "Frost Mage")),
        ("", "Beast Mastery Hunter", ("hunter", "Beast Mastery Hunter")),
        ("deathknight", "unholy", ("death_knight", "Unholy Death Knight")),
        ("Demon Hunter", "", ("demon_hunter", "Demon Hunter")),
        ("", "Unknown", ("", "")),
        ("tinker", "Clockwork", ("", "Clockwork Tinker")),
    ],
)
def test_class_and_specialization_are_named(
    class_name: str, specialization: str, expected: tuple[str, str]
) -> None:
    found = names.class_of(class_name, specialization), names.specialization_of(class_name, specialization)
    assert found == expected


def several(count: int, query: str = "") -> Any:
    """Return the result of a job with several actors."""
    actors = tuple(Actor(name=f"actor {number}", abilities=ABILITIES) for number in range(1, count + 1))
    listed = {"count": count, "results": [figures(actor.name, 100.0) for actor in actors]}
    job_summary = {"metric": "dps", "mainActor": None, "actors": listed}
    return result_of(job_summary, query, details=Details(fight=Fight(), actors=actors))


@pytest.mark.parametrize(("count", "beside"), [(1, 0), (2, 2), (4, 4), (5, 0)])
def test_a_few_actors_are_side_by_side(count: int, beside: int) -> None:
    result = several(count)
    assert len(result.views) == beside
    assert result.view.name == "actor 1"


@pytest.mark.parametrize(("query", "name"), [("", "actor 1"), ("actor=5", "actor 5"), ("actor=6", "actor 6")])
def test_an_actor_can_be_chosen(query: str, name: str) -> None:
    result = several(6, query)
    assert result.view.name == name
    assert [choice["name"] for choice in result.choices if choice["is_current"]] == [name]


def test_a_missing_actor_is_the_last_one() -> None:
    assert several(3, "actor=9").view.name == "actor 3"


def test_only_the_baseline_has_a_median_in_the_headline() -> None:
    details = Details(fight=Fight(), actors=(Actor(name="Frosty", dps=Dps(median=99.0)),))
    best, baseline = result_of(summary("a"), details=details).readings
    assert (best.label, best.figures.median, baseline.figures.median) == ("Best variant", None, 99.0)
    assert baseline.strip.median
