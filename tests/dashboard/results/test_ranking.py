"""Rankings on pages: places, differences, bars, filters, baselines, pages."""

import re
from typing import Any

import pytest

from dashboard.results.ranking import FIRST_ROWS, MAX_GROUPS, ROWS, Ranking
from jobs.results.rankings import Entry
from tests.dashboard.summaries import figures, ranking_of, result_of, summary

GROUPED = ("Gem: Ruby", "Trinket: Jug", "Gem: Onyx", "Trinket: Eye", "Cloak")
RTL = "\u05e9\u05dc\u05d5\u05dd"


def compared(*means: float, mean: float = 100.0, error: float = 1.0) -> dict[str, Any]:
    """Return a summary whose profilesets have these means."""
    built = summary(mean=mean)
    built["mainActor"] |= {"mean_error": error}
    ordered = [figures(f"set {number}", each, error) for number, each in enumerate(sorted(means)[::-1], start=1)]
    built["mainActor"]["profilesets"] = {"count": len(ordered), "results": ordered}
    return built


def names(ranking: Ranking) -> list[str]:
    return [row.prefix + row.name for row in ranking.rows]


def positions(path: str) -> list[float]:
    """Return the horizontal positions in a path of a bar."""
    return [float(number) for number in re.findall(r"[MH](-?[\d.]+)", path)]


def test_a_ranking_contains_its_baseline() -> None:
    rows = ranking_of(summary("a", "b")).rows
    assert [(row.place, row.name) for row in rows] == [(1, "b"), (2, "a"), (None, "Frosty")]
    assert [row.difference for row in rows] == [pytest.approx(10.0), pytest.approx(5.0), None]


def test_bars_start_at_the_baseline() -> None:
    ranking = ranking_of(compared(110, 90))
    gain, baseline, loss = (positions(row.bar) for row in ranking.rows)
    assert gain[0] == loss[0] == positions(ranking.zero)[0]
    assert loss[1] < loss[0] < gain[1]
    assert baseline == []


def test_whiskers_span_the_interval() -> None:
    best = ranking_of(compared(110)).rows[0]
    low, high = positions(best.whisker)[:2]
    assert low < positions(best.bar)[1] < high <= 1000


def test_a_difference_within_the_error_is_neither_better_nor_worse() -> None:
    # The combined margin of error is √2, and 1.22 times as large for three comparisons.
    ranking = ranking_of(compared(101.8, 101.7, 98.2))
    assert [row.kind for row in ranking.rows] == ["gain", "even", "", "loss"]
    assert (ranking.gains, ranking.even, ranking.losses) == (1, 1, 1)


@pytest.mark.parametrize("mean", [0.0, -1.0, 1e30, -1e30, 1e-30, 1.7e308], ids=str)
def test_extreme_numbers_stay_inside_the_picture(mean: float) -> None:
    for row in ranking_of(summary("a", mean=mean)).rows:
        assert all(0 <= each <= 1000 for path in (row.bar, row.whisker) for each in positions(path))


def test_zero_entries_have_no_bar_and_no_difference() -> None:
    rows = ranking_of(compared(0.0, mean=0.0, error=0.0)).rows
    assert {(row.bar, row.difference) for row in rows} == {("", None)}


def test_a_negative_baseline_gains_upwards() -> None:
    assert ranking_of(compared(-50.0, mean=-100.0)).rows[0].difference == pytest.approx(50.0)


def test_one_row_that_dwarfs_the_rest_is_cut() -> None:
    ranking = ranking_of(compared(101, 102, 103, 104, 900))
    assert [row.is_cut for row in ranking.rows] == [True, *[False] * 5]
    assert ranking.has_cut_bars
    assert positions(ranking.rows[1].bar)[1] > 700


def test_an_even_spread_is_not_cut() -> None:
    assert not ranking_of(compared(101, 150, 200, 250, 300)).has_cut_bars


@pytest.mark.parametrize("query", ["q=+RING+", "q=ring"])
def test_a_search_keeps_places_and_the_baseline(query: str) -> None:
    ranking = ranking_of(summary("Ring", "Trinket", "ringing"), query)
    assert [(row.place, row.name) for row in ranking.rows] == [(1, "ringing"), (3, "Ring"), (None, "Frosty")]
    assert (ranking.matching, ranking.listed, ranking.count) == (2, 3, 3)


def test_a_long_search_is_cut() -> None:
    assert result_of(summary("a"), f"q={'x' * 500}").options.search == "x" * 100


def test_only_upgrades_leaves_clear_gains() -> None:
    assert names(ranking_of(compared(101, 105, 95), "only=upgrades")) == ["set 1", "Frosty"]


def test_a_group_is_a_filter() -> None:
    assert names(ranking_of(summary(*GROUPED), "group=Gem")) == ["Gem: Onyx", "Gem: Ruby", "Frosty"]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("best", ["b", "A", "Frosty"]),
        ("worst", ["Frosty", "A", "b"]),
        ("name", ["A", "b", "Frosty"]),
        ("-name", ["Frosty", "b", "A"]),
        ("nonsense", ["b", "A", "Frosty"]),
    ],
)
def test_rows_can_be_sorted(sort: str, expected: list[str]) -> None:
    assert names(ranking_of(summary("A", "b"), f"sort={sort}")) == expected


def test_any_row_can_be_the_baseline() -> None:
    ranking = ranking_of(summary("a", "b"), "base=2")
    assert [(row.name, row.kind) for row in ranking.rows] == [("b", "gain"), ("a", ""), ("Frosty", "loss")]
    assert ranking.rows[0].difference == pytest.approx(100 * 5 / 105)
    assert not ranking.is_own_baseline


def test_the_headline_names_another_variant_than_the_baseline() -> None:
    readings = result_of(summary("a", "b"), "base=1").readings
    assert [(reading.label, reading.name) for reading in readings] == [
        ("Baseline", "b"),
        ("Highest other variant", "a"),
    ]


@pytest.mark.parametrize("base", ["0", "3", "-1", "x", "99999999999999999999", "٣"])
def test_an_unknown_baseline_is_ignored(base: str) -> None:
    assert ranking_of(summary("a", "b"), f"base={base}").is_own_baseline


def test_links_and_forms_keep_the_other_choices() -> None:
    filters = result_of(summary("a", "b"), "sort=name&q=a&page=1&base=2").filters
    assert filters is not None
    assert filters.shows[1]["link"] == "?q=a&only=upgrades&sort=name&base=2"
    assert filters.kept_by_baseline == [("q", "a"), ("sort", "name")]
    assert filters.kept_by_search == [("sort", "name"), ("base", "2")]


def test_rows_are_paged() -> None:
    many = summary(*[f"set {number}" for number in range(ROWS * 2 + 5)])
    first, last = ranking_of(many, "rows=all"), ranking_of(many, "page=3")
    assert (len(first.rows), first.previous, first.following) == (ROWS + 1, "", "?page=2&rows=all")
    assert (len(last.rows), last.first, last.last, last.following) == (6, 401, 405, "")
    assert ranking_of(many, "page=1000000").first == last.first


def test_the_first_page_is_short_until_all_rows_are_requested() -> None:
    many = summary(*[f"set {number}" for number in range(FIRST_ROWS + 16)])
    short, whole = ranking_of(many), ranking_of(many, "rows=all")
    assert (len(short.rows), short.last, short.following) == (FIRST_ROWS + 1, FIRST_ROWS, "?rows=all")
    assert (len(whole.rows), whole.last, whole.following) == (FIRST_ROWS + 17, FIRST_ROWS + 16, "")
    assert ranking_of(summary(*map(str, range(FIRST_ROWS)))).following == ""


def test_rows_that_are_tied_for_best_are_marked() -> None:
    ranking = ranking_of(compared(110, 109.5, 105))
    assert [(row.name, row.is_tied) for row in ranking.rows] == [
        ("set 1", True),
        ("set 2", True),
        ("set 3", False),
        ("Frosty", False),
    ]


def test_rows_have_their_stage_if_the_job_ran_in_stages() -> None:
    staged = compared(110, 105)
    first, second = staged["mainActor"]["profilesets"]["results"]
    first["stage"], second["stage"] = 3, 1
    assert [row.stage for row in ranking_of(staged).rows] == [None, None, None]
    staged["multiStage"] = {"enabled": True, "reason": "eligible_profileset_only", "stages": []}
    assert [row.stage for row in ranking_of(staged).rows] == [3, 1, None]


def test_margins_cover_all_pairs_if_another_baseline_is_chosen() -> None:
    assert ranking_of(compared(110, 105)).comparisons == 2
    assert ranking_of(compared(110, 105), "base=2").comparisons == 3


def test_the_axis_covers_only_the_rows_shown() -> None:
    spread = compared(*[200 + number for number in range(ROWS)], *[101.0] * ROWS)
    first, last = ranking_of(spread, "rows=all"), ranking_of(spread, "page=2")
    assert last.axis[-1].value < first.axis[-1].value


def test_a_new_filter_starts_at_the_first_page() -> None:
    filters = result_of(summary(*GROUPED), "page=2").filters
    assert filters is not None
    assert [choice["link"] for choice in filters.groups] == ["?group=Trinket", "?group=Gem"]


def test_all_profilesets_are_listed_if_they_are_stored() -> None:
    cut = summary("a", "b")
    cut["mainActor"]["profilesets"]["count"] = 3
    stored = [Entry(1, "b", 110.0, 1.0), Entry(2, "a", 105.0, 1.0), Entry(3, "c", 90.0, 1.0, stage=1)]
    ranking = ranking_of(cut, entries=stored)
    assert (names(ranking), ranking.listed) == (["b", "a", "Frosty", "c"], 3)


def test_a_ranking_counts_entries_that_are_not_stored() -> None:
    cut = summary("a")
    cut["mainActor"]["profilesets"]["count"] = 5_000
    assert (ranking_of(cut).listed, ranking_of(cut).count) == (1, 5_000)


def test_names_share_prefixes() -> None:
    groups = result_of(summary(*GROUPED)).groups
    found = [(group.name, group.count, group.best_name, group.kind) for group in groups]
    assert found == [("Trinket", 2, "Eye", "gain"), ("Gem", 2, "Onyx", "gain")]
    assert positions(groups[0].best_dot) == [max(positions(groups[0].dots["gain"]))]


def test_only_the_largest_groups_are_shown() -> None:
    many = [f"Group {number}: {part}" for number in range(MAX_GROUPS + 3) for part in "ab"]
    assert len(result_of(summary(*many)).groups) == MAX_GROUPS


@pytest.mark.parametrize("prefixes", [["Gem: a", "Gem: b"], ["a: x", "b: y"], ["one", "two"], [f"{RTL}"] * 3])
def test_names_without_several_groups_have_none(prefixes: list[str]) -> None:
    assert result_of(summary(*prefixes)).groups == []


def test_actors_are_compared_with_the_first() -> None:
    actors = {"count": 3, "results": [figures("A", 100.0), figures("B", 120.0), figures("C", 130.0)]}
    result = result_of({"metric": "dps", "mainActor": None, "actors": actors})
    assert result.actors is not None
    found = [(row.place, row.name, row.difference) for row in result.actors.rows]
    assert found == [(1, "C", pytest.approx(30.0)), (2, "B", pytest.approx(20.0)), (None, "A", None)]
    assert positions(result.actors.zero) == [0]
    assert [reading.name for reading in result.readings] == ["C", "A"]
