"""What a page makes of a summary: bars, places, differences, the funnel."""

from typing import get_args

import pytest

from dashboard import results
from dashboard.results import Ranking, Shown
from jobs import labels
from jobs.api.summary import StageReason
from jobs.enums import ErrorCode
from jobs.models import Job
from tests.dashboard.summaries import figures, summary

STAGED = {
    "enabled": True,
    "reason": "eligible_profileset_only",
    "stages": [
        {"stage": 1, "label": "initial", "profilesets": 100, "culled": 60},
        {"stage": 2, "label": "final", "profilesets": 40, "culled": 0},
    ],
}


def shown(found: dict, **options: object) -> Shown:
    """Return what a page shows of a job with a summary."""
    job = Job(status="completed", summary=found, multi_stage=bool(options.pop("multi_stage", False)))
    seen = results.shown(job, **options)  # type: ignore[arg-type]
    assert seen is not None
    return seen


def ranking(found: dict, **options: object) -> Ranking:
    """Return the ranking of a summary."""
    seen = shown(found, **options).ranking
    assert seen is not None
    return seen


def test_a_ranking_stands_beside_its_baseline() -> None:
    rows = ranking(summary("a", "b")).rows
    assert [(row.place, row.name) for row in rows] == [(1, "b"), (2, "a"), (None, "Frosty")]
    assert [row.difference for row in rows] == [pytest.approx(10.0), pytest.approx(5.0), None]


def test_bars_begin_at_the_baseline_and_whiskers_fit() -> None:
    found = ranking(summary("a", "b"))
    best = found.rows[0]
    # From 99 (the baseline's whisker) to 111 (the best one's).
    assert found.zero == best.bar.start == "8.33%"
    assert (best.bar.width, best.bar.low, best.bar.high) == ("83.33%", "83.33%", "100.00%")


def test_a_loss_is_a_bar_to_the_left() -> None:
    worse = summary()
    worse["mainActor"]["profilesets"] = {"count": 1, "results": [figures("worse", 90.0)]}
    (baseline, loss) = ranking(worse).rows
    assert loss.difference == pytest.approx(-10.0)
    assert float(loss.bar.start[:-1]) + float(loss.bar.width[:-1]) == pytest.approx(
        float(baseline.bar.start[:-1]), abs=0.02
    )


def test_a_difference_within_both_intervals_is_not_clear() -> None:
    assert [row.clear for row in ranking(summary("a", "b")).rows] == [True, True, False]
    vague = summary()
    vague["mainActor"]["profilesets"] = {"count": 1, "results": [figures("vague", 101.0)]}
    assert not ranking(vague).rows[0].clear


@pytest.mark.parametrize("mean", [0.0, -1.0, 1e30, -1e30, 1e-30], ids=str)
def test_no_number_breaks_a_picture(mean: float) -> None:
    for row in ranking(summary("a", mean=mean)).rows:
        places = [float(place[:-1]) for place in (row.bar.start, row.bar.width, row.bar.low, row.bar.high)]
        assert all(0 <= place <= 100.01 for place in places)


def test_entries_that_are_all_nothing_have_no_width() -> None:
    found = summary(mean=0.0)
    found["mainActor"] |= {"mean_error": 0.0, "profilesets": {"count": 1, "results": [figures("a", 0.0, 0.0)]}}
    assert {(row.bar.start, row.difference) for row in ranking(found).rows} == {("0.00%", None)}


def test_a_search_keeps_places_and_the_baseline() -> None:
    found = ranking(summary("Ring", "Trinket", "ringing"), search=" RING ")
    assert [(row.place, row.name) for row in found.rows] == [(1, "ringing"), (3, "Ring"), (None, "Frosty")]
    assert (found.listed, found.count) == (2, 3)


def test_the_listed_may_be_fewer_than_there_are() -> None:
    found = summary("a")
    found["mainActor"]["profilesets"]["count"] = 5_000
    assert (ranking(found).listed, ranking(found).count) == (1, 5_000)


def test_actors_are_compared_with_the_first() -> None:
    actors = {"count": 2, "results": [figures("A", 100.0), figures("B", 120.0)]}
    seen = shown({"metric": "dps", "mainActor": None, "actors": actors})
    assert seen.actors is not None
    assert [(row.name, row.difference) for row in seen.actors.rows] == [("B", pytest.approx(20.0)), ("A", None)]
    assert seen.actors.zero == "0.00%"


def test_a_funnel_narrows_from_stage_to_stage() -> None:
    first, last = shown(summary("a", stages=STAGED)).funnel
    assert first.corners == "0.00,0 100.00,0 70.00,20 30.00,20"
    assert last.corners == "30.00,0 70.00,0 70.00,20 30.00,20"
    assert (first.simulated, first.left, last.left) == (100, 40, 40)


def test_what_little_is_left_can_be_seen() -> None:
    assert results.corners(1.0, 0.0001).endswith("50.75,20 49.25,20")


@pytest.mark.parametrize(
    ("wanted", "reason", "told"),
    [
        (True, "below_min_candidates", True),
        (True, "unsupported_multi_actor", True),
        (True, "eligible_profileset_only", False),
        (False, "disabled_by_option", False),
        (False, "below_min_candidates", False),
    ],
)
def test_why_stages_were_not_run(wanted: bool, reason: str, told: bool) -> None:  # noqa: FBT001
    stages = {"enabled": False, "reason": reason, "stages": []}
    assert bool(shown(summary(stages=stages), multi_stage=wanted).single_pass) == told


def test_gear_and_talents_are_shown() -> None:
    gear = [{"slot": "head", "name": "Hood"}]
    found = shown(summary(gear=gear, talents="ABC"))
    assert (found.gear, found.talents) == (gear, "ABC")


@pytest.mark.parametrize("found", [None, {}], ids=["none", "empty"])
def test_without_a_summary_nothing_is_shown(found: dict | None) -> None:
    assert results.shown(Job(status="completed", summary=found)) is None


def test_every_reason_of_the_contract_has_words() -> None:
    told = set(labels.SINGLE_PASS) | {"eligible_profileset_only", "disabled_by_option"}
    assert told == set(get_args(StageReason))
    assert set(labels.ADVICE) == set(ErrorCode)
