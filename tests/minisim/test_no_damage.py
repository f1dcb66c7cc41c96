"""Actors that do no damage: the report has no figures of them, and no target error ends the run."""

import pytest

from tests.minisim.conftest import Run

IDLE = "mage=Idle\nlevel=60\nspec=frost\nactions=wait\nseed=1"
BUSY = "mage=Busy\nlevel=60\nspec=frost\nseed=1"


@pytest.mark.parametrize("actions", ["wait", "flask/food/wait,sec=1", "use_items"])
def test_without_damage_there_is_no_dps(run: Run, actions: str) -> None:
    result = run(f"{IDLE}\nactions={actions}\niterations=500", "html=x.html")
    assert (result.status, result.err) == (0, "")
    sim = result.report["sim"]
    data = sim["players"][0]["collected_data"]
    assert not {"dps", "dmg", "compound_dmg"} & data.keys()
    assert (data["fight_length"]["count"], sim["statistics"]["raid_dps"]) == (500, {})


@pytest.mark.parametrize("actions", ["auto_attack", "frostbolt", "wait/frostbolt", ""])
def test_attacks_do_damage(run: Run, actions: str) -> None:
    assert run(f"{BUSY}\nactions={actions}\niterations=100").dps["mean"] > 0


def test_a_precombat_list_alone_is_no_damage_list(run: Run) -> None:
    assert run(f"{BUSY}\nactions.precombat=flask\niterations=100").dps["mean"] > 0


def test_profilesets_without_damage_are_left_out(run: Run) -> None:
    sets = "profileset.none+=gear_intellect=10\nprofileset.some+=actions=frostbolt"
    (only,) = run(f"{IDLE}\niterations=100\n{sets}").report["sim"]["profilesets"]["results"]
    assert only["name"] == "some"


def test_only_profilesets_without_damage_leave_no_results(run: Run) -> None:
    result = run(f"{IDLE}\niterations=100\nprofileset.none+=gear_intellect=10")
    assert result.report["sim"]["profilesets"]["results"] == []


def test_without_damage_a_target_error_ends_nothing(run: Run) -> None:
    result = run(f"{IDLE}\ntarget_error=1")
    assert result.report["sim"]["options"]["iterations"] == 1_000_000
    assert "1000000/1000000" in result.out


def test_without_damage_iterations_still_limit_the_run(run: Run) -> None:
    result = run(f"{IDLE}\ntarget_error=1", "iterations=700")
    assert result.report["sim"]["options"]["iterations"] == 700


def test_an_idle_actor_does_not_stop_the_others(run: Run) -> None:
    sim = run(f"{BUSY}\nmage=Idle\nactions=wait\ntarget_error=1", "html=x.html").report["sim"]
    busy, idle = (player["collected_data"] for player in sim["players"])
    assert sim["options"]["iterations"] < 2000
    assert sim["statistics"]["raid_dps"]["mean"] == busy["dps"]["mean"]
    assert "dps" not in idle
