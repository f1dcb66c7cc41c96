"""Reports with less work than their runs were asked to do."""

from dataclasses import replace

import pytest

from simc.reports import Player, Profileset, Report, Statistics, wrong_iterations
from simc.shortfall import Asked, shortfall, target_not_reached, without_result

DPS = Statistics(mean=1000, mean_stddev=5, stddev=100, min=1, max=2000)
"""With an error of 0.98 %."""
PLAYER = Player("A", DPS, fights=998, target=DPS)
REPORT = Report(players=(PLAYER,), profilesets=(), raid_dps=DPS, iterations=1000, errors=())
ASKED = Asked(actors=1, iterations=1000, limit=1000, threads=2)


def sets(*counts: int | None) -> tuple[Profileset, ...]:
    return tuple(Profileset(f"set {number}", DPS, 1, count) for number, count in enumerate(counts))


@pytest.mark.parametrize(
    ("report", "asked"),
    [
        ({}, {}),
        ({"iterations": 998}, {}),
        # Half of them, once for each of two threads
        ({"iterations": 500, "players": (replace(PLAYER, fights=498),)}, {"is_deterministic": True}),
        ({"iterations": 100, "players": (replace(PLAYER, fights=98),)}, {"iterations": 0}),
        ({"iterations": 100, "players": (replace(PLAYER, fights=98),)}, {"target_error": 1.0}),
        ({"iterations": 100, "players": (replace(PLAYER, fights=98, target=None),)}, {"target_error": 0.1}),
        ({"iterations": 100, "players": (replace(PLAYER, fights=98),) * 2}, {"target_error": 0.1}),
        ({"iterations": 5, "players": (replace(PLAYER, fights=0),)}, {}),
        ({"profilesets": sets(1000, 998, 500, None)}, {"profilesets": 4}),
        ({"profilesets": sets(100)}, {"profilesets": 1, "target_error": 1.0}),
        ({"profilesets": sets(100)}, {"profilesets": 1, "own_iterations": {"set 0": 100}}),
        ({"profilesets": sets(100)}, {"profilesets": 1, "own_iterations": {"set 0": 0}}),
        ({"profilesets": sets(100)}, {"profilesets_may_end_early": True}),
    ],
)
def test_complete_and_uncertain_work_is_accepted(report: dict[str, object], asked: dict[str, object]) -> None:
    assert shortfall(replace(REPORT, **report), replace(ASKED, **asked)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("report", "asked", "sentence"),
    [
        (
            {"iterations": 37, "players": (replace(PLAYER, fights=35),)},
            {},
            "The simulator ended after 37 of 1,000 iterations.",
        ),
        (
            {"iterations": 500, "players": (replace(PLAYER, fights=498),)},
            {},
            "The simulator ended after 500 of 1,000 iterations.",
        ),
        (
            {"iterations": 37, "players": (replace(PLAYER, fights=35),)},
            {"target_error": 0.1},
            "The simulator ended after 37 of at most 1,000 iterations, with an error of 0.98 % instead of 0.1 %.",
        ),
        ({}, {"actors": 3}, "The simulator returned results for only 1 of 3 characters."),
        (
            {"profilesets": sets(1000)},
            {"profilesets": 3},
            "The simulator returned no result for 2 of 3 profilesets.",
        ),
        (
            {"profilesets": sets(1000, 37)},
            {"profilesets": 2},
            "The simulator ended the profileset 'set 1' after 37 of 1,000 iterations.",
        ),
    ],
)
def test_less_work_is_named(report: dict[str, object], asked: dict[str, object], sentence: str) -> None:
    found = shortfall(replace(REPORT, **report), replace(ASKED, **asked))  # type: ignore[arg-type]
    assert found is not None
    assert found.sentence == sentence


@pytest.mark.parametrize(
    ("count", "is_right"), [(100, True), (50, True), (49, True), (51, True), (1, False), (30, False)]
)
def test_a_share_of_a_deterministic_simulation_is_right(count: int, is_right: object) -> None:
    report = replace(REPORT, profilesets=sets(count))
    assert (wrong_iterations(report, expected=100, target_error=0, threads=2) is None) is is_right


def test_unreached_target_errors_are_counted_with_their_error() -> None:
    report = replace(REPORT, profilesets=sets(1000, 500, 999))
    (warning,) = target_not_reached(report, replace(ASKED, target_error=0.5))
    assert warning == (
        "The limit of 1,000 iterations ended 3 simulations before the target error of 0.5 % was reached. The "
        "largest error is 0.98 %."
    )
    assert not list(target_not_reached(report, replace(ASKED, target_error=1.0)))
    assert not list(target_not_reached(report, ASKED))


def test_profilesets_without_a_result_are_named() -> None:
    assert list(without_result(REPORT, {"b", "a"})) == ["2 profilesets have no result: 'a', 'b'."]
    assert not list(without_result(replace(REPORT, profilesets=sets(1)), {"set 0"}))
