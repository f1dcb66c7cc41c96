"""Options of plots: what is allowed, how many simulations they need, and that nothing evades the limits."""

import pytest

from simc.profiles.analysis import FINAL_STAGE_OPTIONS, Analysis, analyse_submitted
from simc.profiles.numbers import Bounds, Precision
from simc.profiles.policy import Rules

BOUNDS = Bounds(iterations=250_000, target_error=0.01)
PLOT = "mage=A iterations=500 dps_plot_stat=crit,haste"


def analyse(text: str, *, bounds: Bounds = BOUNDS) -> Analysis:
    return analyse_submitted(text, rules=Rules(), bounds=bounds)


def points(text: str) -> int:
    analysis = analyse(text)
    assert analysis.refusals == []
    return analysis.plot.points


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ("", 40),
        ("dps_plot_points=6", 12),
        # Half of them on each side
        ("dps_plot_points=7", 12),
        ("dps_plot_points=7 dps_plot_positive=1", 14),
        ("dps_plot_points=7 dps_plot_negative=1", 14),
        ("dps_plot_points=1", 0),
        ("dps_plot_points=200", 400),
        # The last value counts.
        ("dps_plot_points=6\ndps_plot_points=100", 200),
        ("dps_plot_points=100\ndps_plot_points=6", 12),
        ("dps_plot_positive=1 dps_plot_points=3 dps_plot_positive=0", 4),
        ("dps_plot_stat=crit", 20),
        ("dps_plot_stat=crit:Crit_Rating/critRating|CRIT;critstrkrtng", 20),
        ("dps_plot_stat=crit,haste,mastery,vers,int,SP,ap,wdps", 160),
        ("dps_plot_stat=", 0),
        ("dps_plot_stat=,", 0),
        ("$(n)=10\ndps_plot_points=$(n)", 20),
    ],
)
def test_points_times_stats_are_counted(options: str, count: int) -> None:
    assert points(f"{PLOT}\n{options}") == count


def test_points_count_as_variants() -> None:
    analysis = analyse(f"{PLOT} dps_plot_points=6\nprofileset.a=level=80\ncopy=B")
    assert (analysis.variants, analysis.counted_variants) == (2, 14)


def test_without_a_stat_nothing_is_plotted() -> None:
    assert points("mage=A dps_plot_points=20 dps_plot_step=5") == 0


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("dps_plot_points=1000000000", "it must be from 1 to 200"),
        ("dps_plot_points=201", "it must be from 1 to 200"),
        ("dps_plot_points=0", "it must be from 1 to 200"),
        ("dps_plot_points=-4", "it must be from 1 to 200"),
        ("dps_plot_points=", "it must be from 1 to 200"),
        ("dps_plot_points=20abc", "it must be from 1 to 200"),
        ("dps_plot_points=1e2", "it must be from 1 to 200"),
        ("dps_plot_points=\N{ARABIC-INDIC DIGIT FIVE}", "it must be from 1 to 200"),
        ("dps_plot_points=99999999999999999999", "it must be from 1 to 200"),
        ("dps_plot_step=nan", "it must be a number above 0 and at most 100,000"),
        ("dps_plot_step=inf", "it must be a number above 0 and at most 100,000"),
        ("dps_plot_step=0", "it must be a number above 0 and at most 100,000"),
        ("dps_plot_step=-5", "it must be a number above 0 and at most 100,000"),
        ("dps_plot_step=100001", "it must be a number above 0 and at most 100,000"),
        ("dps_plot_step=0x10", "it must be a number above 0 and at most 100,000"),
        ("dps_plot_stat=crit,luck", "it lists luck, which is not a stat"),
        ("dps_plot_stat=all", "it lists all, which is not a stat"),
        ('dps_plot_stat="crit, haste"', "it lists  haste, which is not a stat"),
        ("dps_plot_stat=\u200bcrit", "it lists <U+200B>crit, which is not a stat"),
        ("dps_plot_positive=2", "it must be 0 or 1"),
        ("dps_plot_negative=yes", "it must be 0 or 1"),
        ("dps_plot_iterations=many", "it must be a plain number"),
        ("dps_plot_target_error=nan", "it must be a plain number"),
        ("dps_plot_target_error=-1", "it must be a plain number"),
        (f"dps_plot_iterations={BOUNDS.iterations + 1}", f"it must be at most {BOUNDS.iterations:,}, the limit"),
        ("dps_plot_target_error=0.0001", f"it must be at least {BOUNDS.target_error:g}, the smallest"),
        ("DPS_PLOT_POINTS=6", "the simulator would ignore it; write dps_plot_points="),
        ("dps_plot_points+=6", "the simulator would ignore it; write dps_plot_points="),
        ("dps_plot_debug=1", "it produces too much output"),
        ("reforge_plot_stat=crit,haste", "it produces too much output"),
        ("profileset.a=dps_plot_points=6", "plots belong to the profile itself"),
        ("profileset.a+=dps_plot_stat=crit", "plots belong to the profile itself"),
        ("profileset.a+=DPS_PLOT_STAT=crit", "plots belong to the profile itself"),
        ("profileset.a+=dps_plot_iterations+=9", "the simulator would ignore it"),
    ],
)
def test_anything_else_is_refused(option: str, reason: str) -> None:
    # A valid value before or after it does not help.
    for text in (f"{PLOT}\n{option}", f"{PLOT}\n{option}\n{PLOT} dps_plot_points=6 dps_plot_step=5"):
        analysis = analyse(text)
        assert [refusal.line for refusal in analysis.refusals] == [2]
        assert reason in analysis.refusals[0].reason
        assert analysis.counted_variants <= 41


def test_numbers_of_points_replace_those_of_the_base() -> None:
    numbers = analyse(f"{PLOT} dps_plot_iterations=90 dps_plot_target_error=2").plot_numbers
    assert numbers == Precision(iterations=90, target_error=2)
    assert analyse(f"{PLOT} dps_plot_iterations=0").plot_numbers == Precision(iterations=500, target_error=0)


def test_limits_are_allowed() -> None:
    options = f"dps_plot_iterations={BOUNDS.iterations} dps_plot_target_error={BOUNDS.target_error}"
    assert points(f"{PLOT} {options} dps_plot_step=100000") == 40


def test_plots_run_only_in_the_last_stage() -> None:
    assert "dps_plot_stat" in FINAL_STAGE_OPTIONS
    assert "dps_plot_points" in FINAL_STAGE_OPTIONS


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        ("", 0),
        ("calculate_scale_factors=0 scale_only=crit", 0),
        ("calculate_scale_factors=1", 7),
        ("calculate_scale_factors=1 scale_only=crit,haste_rating/unknown", 2),
        ("calculate_scale_factors=1 scale_only=crit,haste center_scale_delta=1", 4),
    ],
)
def test_simulations_of_scale_factors_are_counted(options: str, runs: int) -> None:
    assert analyse(f"mage=A {options}").weight_runs == runs
