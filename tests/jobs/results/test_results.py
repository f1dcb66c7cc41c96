"""Reports of several stages merged into one, with the most precise figures."""

from dataclasses import replace

import pytest

from jobs.enums import MultistageReason
from jobs.execution.results import Results, merged
from jobs.planning.multistage import StagePlan
from simc.profiles.analysis import analyse
from simc.profiles.numbers import Bounds
from simc.profiles.policy import Rules
from simc.reports import Player, Profileset, Report, Statistics


def figures(mean: float, error: float) -> Statistics:
    return Statistics(mean=mean, mean_stddev=error, stddev=1, min=0, max=2 * mean)


def report(stage: int, error: float, names: str) -> Report:
    profilesets = [Profileset(name=name, statistics=figures(100 + stage, error), stage=stage) for name in names]
    return Report(
        players=(Player(name="A", dps=figures(100 + stage, error), talents="", gear=()),),
        profilesets=tuple(profilesets),
        raid_dps=figures(100 + stage, error),
        iterations=stage,
        errors=(),
    )


@pytest.mark.parametrize(
    ("first", "second", "expected_stage"),
    [(2.0, 1.0, 2), (1.0, 1.0, 2), (1.0, 2.0, 1), (0.0, 1.0, 2), (1.0, 0.0, 1)],
)
def test_the_more_precise_figures_win_if_the_later_stage_was_stopped(
    first: float, second: float, expected_stage: int
) -> None:
    together = merged(report(1, first, "a"), report(2, second, "a"), is_complete=False)
    assert [profileset.stage for profileset in together.profilesets] == [expected_stage]
    assert together.players[0].dps.mean == together.raid_dps.mean == 100 + expected_stage


@pytest.mark.parametrize("later", [0.0, 1.0, 9.0])
def test_a_complete_stage_wins(later: float) -> None:
    together = merged(report(1, 1.0, "a"), report(2, later, "a"), is_complete=True)
    assert [profileset.stage for profileset in together.profilesets] == [2]
    assert together.players[0].dps.mean == together.raid_dps.mean == 102


def test_results_of_a_single_stage_are_kept() -> None:
    together = merged(report(1, 2, "abc"), report(2, 1, "ad"), is_complete=False)
    assert {profileset.name: profileset.stage for profileset in together.profilesets} == {
        "a": 2,
        "b": 1,
        "c": 1,
        "d": 2,
    }


def test_only_profilesets_of_the_profile_count_as_culled() -> None:
    bounds = Bounds(iterations=9, target_error=1)
    analysis = analyse("mage=A\nprofileset.a+=level=1\n", rules=Rules(), bounds=bounds)
    results = Results(StagePlan(MultistageReason.ELIGIBLE), analysis)
    profilesets = [
        Profileset(name=name, statistics=figures(mean, 0.1), stage=1)
        for name, mean in (("of a file", 1), ("a", 99))
    ]
    staged = replace(report(1, 1, ""), profilesets=tuple(profilesets))
    results.add_stage(StagePlan(MultistageReason.ELIGIBLE).stages[0], staged, is_complete=True)
    results.cull(staged)
    assert (results.culled, results.remaining) == (set(), 1)
