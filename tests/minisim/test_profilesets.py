"""Which actor profilesets change, as in the real simulator."""

from typing import Any

import pytest

from tests.minisim.conftest import Finished, Run

MAGE = "mage=Ada\nlevel=60\nspec=frost\ngear_intellect=2000\niterations=200\nseed=1"
SETS = "profileset.better+=gear_intellect=4000\nprofileset.best+=gear_intellect=8000"


def gains(result: Finished) -> dict[str, float]:
    """Return how much higher than the baseline's the mean of each profileset is, as a fraction."""
    sim: dict[str, Any] = result.report["sim"]
    results = sim.get("profilesets", {}).get("results", [])
    return {row["name"]: row["mean"] / result.dps["mean"] - 1 for row in results}


def test_profilesets_change_a_single_character(run: Run) -> None:
    found = gains(run(f"{MAGE}\n{SETS}"))
    assert 0.2 < found["better"] < found["best"]


@pytest.mark.parametrize(
    "before",
    ["enemy=E", "tank_dummy=Dummy", "enemy=E\nenemy=F", "enemy=E\nlevel=83\npet=cat,Tom", "enemy=E\ncopy=F"],
)
def test_profilesets_change_the_first_actor_of_any_kind(run: Run, before: str) -> None:
    result = run(f"{before}\n{MAGE}\n{SETS}")
    assert (result.status, result.err) == (0, "")
    assert all(abs(gain) < 0.02 for gain in gains(result).values())
    assert set(gains(result)) == {"better", "best"}


@pytest.mark.parametrize(
    ("before", "index"), [("enemy=E", 1), ("enemy=E\nenemy=F", 2), ("enemy=E\npet=cat,Tom\ncopy=F,E", 3)]
)
def test_the_main_actor_index_counts_all_actors(run: Run, before: str, index: int) -> None:
    found = gains(run(f"{before}\n{MAGE}\n{SETS}", f"profileset_main_actor_index={index}"))
    assert 0.2 < found["better"] < found["best"]


def test_actors_after_the_character_change_nothing(run: Run) -> None:
    found = gains(run(f"{MAGE}\npet=cat,Tom\nenemy=E\n{SETS}"))
    assert 0.2 < found["better"] < found["best"]


def test_a_profileset_of_the_second_player_is_not_reported(run: Run) -> None:
    profile = f"{MAGE}\nmage=Bea\ngear_intellect=2000\nprofileset.a+=gear_intellect=8000"
    assert abs(gains(run(profile, "profileset_main_actor_index=1"))["a"]) < 0.02


def test_the_reported_player_can_be_chosen(run: Run) -> None:
    profile = f"{MAGE}\nmage=Bea\ngear_intellect=2000\nprofileset.a+=gear_intellect=8000"
    options = ("profileset_main_actor_index=1", "profileset_report_player_index=1")
    assert gains(run(profile, *options))["a"] > 0.2


@pytest.mark.parametrize("index", [1, 7, -1])
def test_an_index_beyond_the_actors_cancels_the_run(run: Run, index: int) -> None:
    result = run(f"{MAGE}\n{SETS}", f"profileset_main_actor_index={index}")
    message = f"ERROR! Option profileset_main_actor_index={index} is out of range. Only 1 actors are defined."
    assert result.status == 1
    assert result.err.splitlines()[0] == message
    assert "profilesets" not in result.report["sim"]


def test_an_index_without_profilesets_has_no_effect(run: Run) -> None:
    assert run(MAGE, "profileset_main_actor_index=7").status == 0


def test_iterations_after_the_enemys_options_win(run: Run) -> None:
    result = run(f"enemy=E\n{MAGE}\nprofileset.a+=iterations=300")
    (only,) = result.report["sim"]["profilesets"]["results"]
    assert only["iterations"] == 200


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_deterministic_sets_report_one_threads_iterations(run: Run, threads: int) -> None:
    result = run(f"{MAGE}\n{SETS}", "iterations=100", "deterministic=1", f"threads={threads}")
    found = {row["iterations"] for row in result.report["sim"]["profilesets"]["results"]}
    assert found == {100 // threads}
    assert result.report["sim"]["options"]["iterations"] == 100


def test_more_threads_than_iterations_are_not_used(run: Run) -> None:
    result = run(f"{MAGE}\n{SETS}", "iterations=2", "deterministic=1", "threads=4")
    assert {row["iterations"] for row in result.report["sim"]["profilesets"]["results"]} == {2}
