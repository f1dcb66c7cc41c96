"""Results on pages: bars, ranks, differences, the funnel."""

from typing import Any

import pytest

from dashboard import results
from jobs import labels
from jobs.enums import ErrorCode, MultistageReason
from jobs.models import Job
from tests.dashboard.summaries import figures, ranking_of, result_of, summary

STAGED = {
    "enabled": True,
    "reason": "eligible_profileset_only",
    "stages": [
        {"stage": 1, "label": "initial", "profilesets": 100, "culled": 60},
        {"stage": 2, "label": "final", "profilesets": 40, "culled": 0},
    ],
}


def test_a_ranking_contains_its_baseline() -> None:
    rows = ranking_of(summary("a", "b")).rows
    assert [(row.rank, row.name) for row in rows] == [(1, "b"), (2, "a"), (None, "Frosty")]
    assert [row.difference for row in rows] == [pytest.approx(10.0), pytest.approx(5.0), None]


def test_bars_start_at_the_baseline_and_contain_whiskers() -> None:
    ranking = ranking_of(summary("a", "b"))
    best = ranking.rows[0]
    # From 99 (the baseline's whisker) to 111 (the best one's).
    assert ranking.zero == best.bar.start == "8.33%"
    assert (best.bar.width, best.bar.low, best.bar.high) == ("83.33%", "83.33%", "100.00%")


def test_a_loss_is_a_bar_to_the_left() -> None:
    results = summary()
    results["mainActor"]["profilesets"] = {"count": 1, "results": [figures("worse", 90.0)]}
    (baseline, loss) = ranking_of(results).rows
    assert loss.difference == pytest.approx(-10.0)
    assert float(loss.bar.start[:-1]) + float(loss.bar.width[:-1]) == pytest.approx(
        float(baseline.bar.start[:-1]), abs=0.02
    )


def test_a_difference_within_the_error_is_not_significant() -> None:
    assert [row.significant for row in ranking_of(summary("a", "b")).rows] == [True, True, False]
    vague = summary()
    vague["mainActor"]["profilesets"] = {"count": 1, "results": [figures("vague", 101.0)]}
    assert not ranking_of(vague).rows[0].significant


@pytest.mark.parametrize("mean", [0.0, -1.0, 1e30, -1e30, 1e-30], ids=str)
def test_extreme_numbers_stay_inside_the_picture(mean: float) -> None:
    for row in ranking_of(summary("a", mean=mean)).rows:
        positions = [float(position[:-1]) for position in (row.bar.start, row.bar.width, row.bar.low, row.bar.high)]
        assert all(0 <= position <= 100.01 for position in positions)


def test_zero_entries_have_no_width_and_no_difference() -> None:
    results = summary(mean=0.0)
    results["mainActor"] |= {"mean_error": 0.0, "profilesets": {"count": 1, "results": [figures("a", 0.0, 0.0)]}}
    assert {(row.bar.start, row.difference) for row in ranking_of(results).rows} == {("0.00%", None)}


def test_a_search_keeps_ranks_and_the_baseline() -> None:
    ranking = ranking_of(summary("Ring", "Trinket", "ringing"), search=" RING ")
    assert [(row.rank, row.name) for row in ranking.rows] == [(1, "ringing"), (3, "Ring"), (None, "Frosty")]
    assert (ranking.listed, ranking.count) == (2, 3)


def test_a_ranking_counts_unlisted_entries() -> None:
    results = summary("a")
    results["mainActor"]["profilesets"]["count"] = 5_000
    assert (ranking_of(results).listed, ranking_of(results).count) == (1, 5_000)


def test_actors_are_compared_with_the_first() -> None:
    actors = {"count": 2, "results": [figures("A", 100.0), figures("B", 120.0)]}
    result = result_of({"metric": "dps", "mainActor": None, "actors": actors})
    assert result.actors is not None
    assert [(row.name, row.difference) for row in result.actors.rows] == [("B", pytest.approx(20.0)), ("A", None)]
    assert result.actors.zero == "0.00%"


def test_a_funnel_narrows_from_stage_to_stage() -> None:
    first, last = result_of(summary("a", stages=STAGED)).funnel
    assert first.corners == "0.00,0 100.00,0 70.00,20 30.00,20"
    assert last.corners == "30.00,0 70.00,0 70.00,20 30.00,20"
    assert (first.simulated, first.remaining, last.remaining) == (100, 40, 40)


def test_a_small_share_stays_visible() -> None:
    assert results.corners(1.0, 0.0001).endswith("50.75,20 49.25,20")


@pytest.mark.parametrize(
    ("requested", "reason", "explained"),
    [
        (True, "below_min_candidates", True),
        (True, "unsupported_multi_actor", True),
        (True, "eligible_profileset_only", False),
        (False, "disabled_by_option", False),
        (False, "below_min_candidates", False),
    ],
)
def test_a_single_pass_is_explained_if_stages_were_requested(requested: bool, reason: str, explained: bool) -> None:  # noqa: FBT001
    stages = {"enabled": False, "reason": reason, "stages": []}
    assert bool(result_of(summary(stages=stages), multi_stage=requested).single_pass) == explained


def test_gear_and_talents_are_shown() -> None:
    gear = [{"slot": "head", "name": "Hood"}]
    result = result_of(summary(gear=gear, talents="ABC"))
    assert (result.gear, result.talents) == (gear, "ABC")


@pytest.mark.parametrize("job_summary", [None, {}], ids=["none", "empty"])
def test_a_job_without_a_summary_has_no_result(job_summary: dict[str, Any] | None) -> None:
    assert results.result_of(Job(status="completed", summary=job_summary)) is None


def test_every_reason_and_error_code_has_a_text() -> None:
    texts = set(labels.SINGLE_PASS) | {MultistageReason.ELIGIBLE, MultistageReason.DISABLED}
    assert texts == set(MultistageReason)
    assert set(labels.ADVICE) == set(ErrorCode)
