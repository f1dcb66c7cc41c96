"""Scale factors and plots: what runs, and what the report contains."""

import re

import pytest

from tests.minisim.conftest import MAGE, Finished, Run

WEIGHTS = f"{MAGE} gear_crit_rating=3000 gear_haste_rating=3000 calculate_scale_factors=1"


def phases(result: Finished) -> list[str]:
    """Return the label of each phase in the order of the output."""
    return list(dict.fromkeys(re.findall(r"Generating (.*?): \d+/\d+ ", result.out)))


def test_more_of_each_stat_is_simulated_once(run: Run) -> None:
    result = run(f"{WEIGHTS} iterations=2000\nprofileset.a=level=81")
    (player,) = result.report["sim"]["players"]
    assert phases(result)[:6] == ["Baseline", "Int", "Crit", "Haste", "Mastery", "Vers"]
    assert " 7/7 [" in result.out
    assert player["scale_factors"].keys() == {"Int", "Crit", "Haste", "Mastery", "Vers"}
    assert player["scale_factors"]["Int"] > player["scale_factors"]["Crit"]
    assert player["scale_deltas"] == dict.fromkeys(player["scale_factors"], 300.0)
    assert player["scale_factors_all"]["dps"] == player["scale_factors"]
    assert result.report["sim"]["options"]["scaling"]["calculate_scale_factors"] is True


def test_stats_that_are_left_out_are_zero(run: Run) -> None:
    result = run(f"{WEIGHTS} scale_only=crit,haste_rating scale_delta_multiplier=2 center_scale_delta=1")
    (player,) = result.report["sim"]["players"]
    assert phases(result) == ["Baseline", "Crit", "Ref Crit", "Haste", "Ref Haste"]
    assert [stat for stat, factor in player["scale_factors"].items() if factor] == ["Crit", "Haste"]
    assert player["scale_deltas"]["Crit"] == 600.0


@pytest.mark.parametrize(
    ("options", "points"),
    [
        ("", [-320, -160, 0, 160, 320]),
        ("dps_plot_positive=1 dps_plot_step=50", [0, 50, 100, 150, 200]),
        ("dps_plot_negative=1 dps_plot_points=2", [-320, -160, 0]),
        ("dps_plot_points=5", [-320, -160, 0, 160, 320]),
    ],
)
def test_a_plot_has_a_point_for_each_change(run: Run, options: str, points: list[int]) -> None:
    result = run(
        f"{MAGE} gear_crit_rating=3000 dps_plot_stat=crit dps_plot_points=4 dps_plot_iterations=50 {options}"
    )
    (plot,) = result.report["sim"]["dps_plot"]
    (curve,) = plot["data"]
    assert plot["name"] == "Ada"
    assert [point["rating"] for point in curve["Crit"]] == points
    dps = result.dps
    assert next(point["dps"] for point in curve["Crit"] if not point["rating"]) == dps["mean"]
    assert phases(result)[1:] == [f"{change} Crit" for change in points if change]
    assert " 50/50 " in result.out


def test_without_them_the_report_has_neither(run: Run) -> None:
    sim = run(MAGE).report["sim"]
    assert "dps_plot" not in sim
    assert "scale_factors" not in sim["players"][0]
