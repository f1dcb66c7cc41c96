"""Figures of running jobs, collected from the simulator's progress lines."""

from dataclasses import replace

import pytest

from jobs.execution.progress import LiveResults, has_means
from jobs.live.preview import LISTED_PROFILESETS, Figures, Preview
from simc.profiles.analysis import analyse
from simc.profiles.numbers import Bounds
from simc.profiles.policy import Rules
from simc.progress import FinishedRun, ProgressMeter, finished_run, parse_update
from simc.reports import Player, Profileset, Report, Statistics

BAR = "[=====>..............]"
ESTIMATE = "Mean=51200 Error=0.500%"


def line(label: str, counts: str, estimate: str = ESTIMATE, *, end: str = "12sec") -> str:
    return f"Generating {label} 2/9 {BAR} {counts} 85.210 {estimate} {end}"


def run(name: str, mean: float = 100.0, error: float = 1.0, iterations: int = 100) -> FinishedRun:
    return FinishedRun(name, mean, error, iterations)


@pytest.fixture
def live() -> LiveResults:
    """The results of a job with three profilesets."""
    results = LiveResults(has_means=True)
    results.enter(1, profilesets=3, replicates={})
    return results


def preview_in(live: LiveResults) -> Preview:
    preview = live.preview(seconds_left=None)
    assert preview is not None
    return preview


def ranking(live: LiveResults) -> list[tuple[str, float, int]]:
    return [(entry.name, entry.mean, entry.stage) for entry in preview_in(live).best]


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (line("Profileset: a b", "1602/1602", end="2.964 (3m, 7s)"), run("a b", 51200, 0.5, 1602)),
        (line("Profileset: a b", "9/9", "", end="312msec"), run("a b", 0, 0, 9)),
        (line("Profileset: a b", "1601/1602"), None),
        (line("Profileset: a b", "201/201", end="2sec"), None),
        (line("Profileset: a b", "0/0"), None),
        (line("Baseline:", "1602/1602"), None),
        (line("Ref Int: 100 Int", "9/9"), None),
        (f"Profilesets (4*1): 3/3 {BAR} avg=1s done=4s left=0s", None),
        ("Profileset: a 9/9", None),
    ],
)
def test_only_the_end_of_a_profileset_is_a_result(printed: str, expected: FinishedRun | None) -> None:
    assert finished_run(parse_update(printed)) == expected


def test_the_meter_returns_what_it_read() -> None:
    meter = ProgressMeter(expected_phases=9)
    assert finished_run(meter.feed(line("Profileset: a", "9/9", end="1.312"))) == run("a", 51200, 0.5, 9)
    assert meter.feed("Simulating...") is None


def finished_after(*updates: str) -> list[FinishedRun]:
    meter = ProgressMeter(expected_phases=9)
    return [run for update in updates if meter.feed(update) for run in meter.take_finished()]


def test_a_full_bar_that_grows_is_one_finished_run() -> None:
    label = "Profileset: a"
    bars = [line(label, "201/201", end="2sec"), line(label, "202/302"), line(label, "302/302", end="3.570")]
    assert finished_after(*bars[:2]) == []
    assert finished_after(*bars) == [run("a", 51200, 0.5, 302)]


def test_a_new_phase_ends_the_one_before() -> None:
    last = line("Profileset: a", "201/201", end="2sec")
    following = line("Profileset: b", "1/201").replace(" 2/9 ", " 3/9 ")
    assert finished_after(last, following) == [run("a", 51200, 0.5, 201)]


def test_names_that_no_profile_can_have_are_ignored(live: LiveResults, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.execution.progress.MAX_NAME_CHARACTERS", 10)
    live.add(run("a" * 11))
    assert live.ranked == {}


def test_long_names_that_differ_at_their_ends_are_two(live: LiveResults) -> None:
    meter = ProgressMeter(expected_phases=9)
    for phase, end in enumerate("12", start=2):
        text = line(f"Profileset: {'x' * 500}{end}", "9/9", end="1.312").replace(" 2/9 ", f" {phase}/9 ")
        meter.feed(text)
    for each in meter.take_finished():
        live.add(each)
    assert [name[-2:] for name, _, _ in ranking(live)] == ["x1", "x2"]
    assert preview_in(live).finished == 2


def test_nothing_known_gives_no_preview(live: LiveResults) -> None:
    live.add_baseline(parse_update(line("Profileset: a", "9/9")))
    live.add_baseline(parse_update(line("Baseline:", "9/90", "")))
    live.add_baseline(parse_update(line("Baseline:", "0/90")))
    live.add(None)
    assert live.preview(seconds_left=None) is None


def test_the_baseline_narrows(live: LiveResults) -> None:
    for label in ("Baseline:", "Baseline: Frost Mage"):
        live.add_baseline(parse_update(line(label, "100/900", "Mean=50000 Error=2.000%")))
        live.add_baseline(parse_update(line(label, "400/900", "Mean=51000 Error=1.000%")))
        assert preview_in(live).baseline == Figures(mean=51000, error=510)


def test_finished_profilesets_are_ranked_by_mean(live: LiveResults) -> None:
    for each in (run("a", 100), run("b", 300, 2), run("c", 200)):
        live.add(each)
    assert ranking(live) == [("b", 300, 1), ("c", 200, 1), ("a", 100, 1)]
    assert (preview_in(live).finished, preview_in(live).best[0].error) == (3, 6)


def test_only_the_best_are_listed() -> None:
    live = LiveResults(has_means=True)
    live.enter(1, profilesets=5000, replicates={})
    for number in range(5000):
        live.add(run(str(number), 1000.0 + number))
    assert [name for name, *_ in ranking(live)] == [str(n) for n in range(4999, 4999 - LISTED_PROFILESETS, -1)]
    assert preview_in(live).finished == 5000


def test_more_names_than_profilesets_are_ignored(live: LiveResults) -> None:
    for number in range(10_000):
        live.add(run(str(number)))
    assert len(live.ranked) == preview_in(live).finished == 3
    live.add(run("1", 500))
    assert ranking(live)[0] == ("1", 500, 1)


def test_unknown_names_do_not_count_as_additional_profilesets(live: LiveResults) -> None:
    live.enter(1, profilesets=1, replicates={"x" * 400: "x" * 400 + "~replicate"})
    live.add(run("x" * 388))
    live.add(run("other"))
    assert preview_in(live).finished == 1


def test_replicates_are_combined_with_their_originals(live: LiveResults) -> None:
    live.enter(1, profilesets=3, replicates={"a": "a~replicate"})
    live.add(run("a~replicate", 100, 1, 100))
    assert ranking(live) == [("a", 100, 1)]
    live.add(run("a", 104, 1, 300))
    (entry,) = preview_in(live).best
    assert (entry.mean, round(entry.error, 2), preview_in(live).finished) == (103, 0.82, 1)


def test_a_later_stage_replaces_less_precise_figures(live: LiveResults) -> None:
    live.add(run("a", 100, 1.0))
    live.add(run("b", 90, 1.0))
    live.enter(2, profilesets=1, replicates={})
    assert (preview_in(live).finished, preview_in(live).count) == (0, 1)
    live.add(run("a", 110, 0.2))
    assert ranking(live) == [("a", 110, 2), ("b", 90, 1)]
    live.enter(3, profilesets=1, replicates={})
    live.add(run("a", 80, 5.0))
    assert ranking(live)[0] == ("a", 110, 2)


def test_the_baseline_of_a_new_stage_waits_until_it_is_as_precise(live: LiveResults) -> None:
    live.add_baseline(parse_update(line("Baseline:", "400/900", "Mean=51000 Error=1.000%")))
    live.enter(2, profilesets=1, replicates={})
    live.add_baseline(parse_update(line("Baseline:", "100/9000", "Mean=53000 Error=4.000%")))
    assert preview_in(live).baseline == Figures(mean=51000, error=510)
    live.add_baseline(parse_update(line("Baseline:", "5000/9000", "Mean=52000 Error=0.500%")))
    assert preview_in(live).baseline == Figures(mean=52000, error=260)


def test_without_a_target_error_profilesets_are_only_counted(live: LiveResults) -> None:
    live.add(run("a", 0, 0))
    assert (preview_in(live).finished, preview_in(live).best) == (1, [])


def reported(*sets: tuple[str, float], metric: float = 100.0) -> Report:
    """Return a report of a baseline and some profilesets, with a standard error of 1."""
    figures = {"mean_stddev": 1.0, "stddev": 10.0, "min": 0.0, "max": 999.0}
    return Report(
        players=(Player(name="A", dps=Statistics(mean=100.0, **figures)),),
        profilesets=tuple(
            Profileset(name=name, statistics=Statistics(mean=mean, **figures), stage=1) for name, mean in sets
        ),
        raid_dps=Statistics(mean=metric, **figures),
        iterations=100,
        errors=(),
    )


def test_reports_rank_profilesets_whose_means_are_not_printed() -> None:
    live = LiveResults(has_means=False, metric="raid_dps")
    live.enter(1, profilesets=3, replicates={"a": "a~replicate"})
    live.add_reported_baseline(reported(metric=300.0))
    live.add_reported(reported(("a", 90), ("a~replicate", 110), ("b", 120)))
    # Its line of the output can arrive after the report.
    live.add(run("b", 0, 0))
    preview = preview_in(live)
    assert ranking(live) == [("b", 120, 1), ("a", 100, 1)]
    assert (preview.finished, preview.metric) == (2, "raid_dps")
    assert preview.baseline == Figures(mean=300, error=1.96)


def test_the_report_of_a_later_stage_is_more_precise(live: LiveResults) -> None:
    live.add(run("a", 100, 5))
    live.add_reported(reported(("a", 101)))
    live.enter(2, profilesets=1, replicates={})
    live.add_reported(reported(("a", 102)))
    assert ranking(live) == [("a", 102, 2)]


def test_means_of_another_kind_are_never_shown() -> None:
    live = LiveResults(has_means=False)
    live.enter(1, profilesets=3, replicates={})
    live.add(run("a"))
    live.add_baseline(parse_update(line("Baseline:", "9/9")))
    assert preview_in(live) == replace(preview_in(live), baseline=None, finished=1, best=[])


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", True),
        ("profileset.a+=talents=1", True),
        ('rogue="B"', False),
        ("copy=B", False),
        ("profileset_metric=hps", False),
    ],
)
def test_printed_means_are_results_of_a_single_actors_dps(more: str, expected: bool) -> None:  # noqa: FBT001
    analysis = analyse(f'mage="A"\n{more}\n', rules=Rules(), bounds=Bounds(iterations=1000, target_error=0.05))
    assert has_means(analysis) is expected


def test_errors_of_few_fights_are_unknown(live: LiveResults) -> None:
    live.add(run("a", iterations=79))
    live.add(run("b", iterations=80))
    few = Statistics(mean=50, mean_stddev=1, stddev=8, min=0, max=99)
    live.add_reported(replace(reported(), profilesets=(Profileset(name="c", statistics=few, stage=1),)))
    assert [(entry.name, entry.error) for entry in preview_in(live).best] == [("a", 0), ("b", 1), ("c", 0)]
