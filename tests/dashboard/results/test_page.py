"""The result page as a whole: facts, stages, slots, missing parts."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboard import results
from dashboard.results.headline import clock, duration
from dashboard.results.timeline import timeline_of
from jobs.enums import ErrorCode, MultistageReason
from jobs.models import Job, Run
from jobs.results import labels
from jobs.results.details import Details, Fight
from tests.dashboard.summaries import figures, result_of, summary

STAGED = {
    "enabled": True,
    "reason": "eligible_profileset_only",
    "stages": [
        {"stage": 1, "label": "initial", "profilesets": 100, "culled": 60},
        {"stage": 2, "label": "final", "profilesets": 40, "culled": 0},
    ],
}
START = datetime(2026, 11, 20, 12, tzinfo=UTC)


def ran(seat: int, start: float, end: float | None, **fields: Any) -> Run:
    """Return a run of a slot, with its times in seconds."""
    ended = None if end is None else START + timedelta(seconds=end)
    return Run(seat=seat, started_at=START + timedelta(seconds=start), ended_at=ended, **{"attempt": 1} | fields)


def test_the_facts_of_the_fight_are_words() -> None:
    fight = Fight(style="Patchwerk", targets=1, length=300.0, variation=0.2, iterations=1604, target_error=0.3)
    facts = dict(result_of(summary("a"), details=Details(fight=fight, actors=())).facts)
    assert facts == {
        "Fight": "Patchwerk, 1 target",
        "Length": "5:00 ± 20 %",
        "Iterations": "1,604",
        "Error": "± 1 % (target 0.3 %)",
        "Variants": "1",
    }


def test_a_job_without_details_has_fewer_facts() -> None:
    assert result_of(summary() | {"iterations": 1000}).facts == [
        ("Iterations", "1,000"),
        ("Error", "± 1 %"),
    ]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.25, "0.2 s"), (59.6, "1 min"), (197, "3 min 17 s"), (7205, "2 h 5 s")]
)
def test_durations_are_words(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected
    assert clock(300) == "5:00"


def test_a_funnel_narrows_from_stage_to_stage() -> None:
    first, last = result_of(summary("a", stages=STAGED)).funnel
    assert (first["width"], last["width"]) == ("100.0%", "40.0%")
    assert (first["simulated"], first["culled"], last["simulated"]) == (100, 60, 40)


def test_a_small_stage_stays_visible() -> None:
    stages = STAGED | {"stages": [STAGED["stages"][0], {**STAGED["stages"][1], "profilesets": 0}]}  # type: ignore[index]
    assert result_of(summary("a", stages=stages)).funnel[1]["width"] == "1.5%"


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


@pytest.mark.parametrize("job_summary", [None, {}], ids=["none", "empty"])
def test_a_job_without_a_summary_has_no_result(job_summary: dict[str, Any] | None) -> None:
    assert results.result_of(Job(status="completed", summary=job_summary)) is None


def test_slots_are_rows_of_a_timeline() -> None:
    timeline = timeline_of([ran(0, 0, 10, shard=0), ran(1, 5, 20, shard=1), ran(1, 20, 40, shard=2)])
    assert timeline is not None
    assert [(seat["number"], len(seat["bars"]), seat["busy"]) for seat in timeline["seats"]] == [
        (1, 1, 10.0),
        (2, 2, 35.0),
    ]
    bar = timeline["seats"][1]["bars"][0]
    assert (bar["x"], bar["width"], bar["kind"]) == ("12.50%", "37.50%", "shard")


@pytest.mark.parametrize(
    "runs",
    [
        [],
        [ran(0, 0, 10), ran(0, 10, 20, stage=2)],
        [ran(0, 0, 10), ran(1, 0, None)],
        [ran(0, 0, 10), ran(1, 0, 10), ran(0, 20, 30, attempt=2)],
    ],
    ids=["none", "one slot", "running", "last attempt on one slot"],
)
def test_jobs_on_one_slot_have_no_timeline(runs: list[Run]) -> None:
    assert timeline_of(runs) is None


def test_every_reason_and_error_code_has_a_text() -> None:
    texts = set(labels.SINGLE_PASS) | {MultistageReason.ELIGIBLE, MultistageReason.DISABLED}
    assert texts == set(MultistageReason)
    assert set(labels.ADVICE) == set(ErrorCode)


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ((90, 50, 70), [("Best actor (baseline)", "Ada"), ("Highest other actor", "Cy")]),
        ((50, 90, 70), [("Best actor", "Bo"), ("Baseline", "Ada")]),
        ((70, 70, 50), [("Highest of those tied for best (baseline)", "Ada"), ("Highest other actor", "Bo")]),
    ],
)
def test_the_best_actor_can_be_the_first_one(means: tuple[int, ...], expected: list[tuple[str, str]]) -> None:
    results = [figures(name, mean) for name, mean in zip(("Ada", "Bo", "Cy"), means, strict=True)]
    several = {**summary(), "mainActor": None, "actors": {"count": 3, "results": results}}
    assert [(each.label, each.name) for each in result_of(several).readings] == expected
