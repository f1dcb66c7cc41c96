"""Details of an actor in the JSON report: they add up to its damage."""

import math
from typing import Any

import pytest

from tests.minisim.conftest import MAGE, Run
from tests.simc.details_check import check_report, extracted

DETAILED = f"{MAGE}\nactions=bolt\nactions+=/nova\niterations=300\nmax_time=200"


@pytest.fixture
def player(run: Run) -> Any:
    return run(DETAILED).report["sim"]["players"][0]


def test_abilities_add_up_to_the_damage(player: Any) -> None:
    stats, collected = player["stats"], player["collected_data"]
    assert [ability["name"] for ability in stats] == ["bolt", "nova", "proc", "auto_attack"]
    assert math.fsum(each["portion_aps"]["mean"] for each in stats) == pytest.approx(collected["dps"]["mean"])
    assert math.fsum(each["compound_amount"] for each in stats) == pytest.approx(collected["dmg"]["mean"])
    assert math.fsum(each["portion_amount"] for each in stats) == pytest.approx(1)


def test_hits_are_normal_or_critical(player: Any) -> None:
    crit = player["collected_data"]["buffed_stats"]["stats"]["crit_pct"]
    for ability in player["stats"]:
        results = ability["direct_results"]
        hits = results["hit"]["count"]["mean"] + results["crit"]["count"]["mean"]
        assert hits == pytest.approx(ability["num_executes"]["mean"])
        assert results["crit"]["pct"] == pytest.approx(100 * crit, abs=3)


def test_the_damage_over_time_adds_up_to_the_dps(player: Any) -> None:
    data = player["collected_data"]["timeline_dmg"]["data"]
    assert len(data) == pytest.approx(240, abs=1)
    assert sum(data[:100]) / 100 == pytest.approx(player["collected_data"]["dps"]["mean"], rel=0.1)
    assert sum(data[2:18]) / 16 > 1.1 * sum(data[30:80]) / 50


def test_buffs_have_their_uptimes(run: Run) -> None:
    cooldowns, proc = run(f"{DETAILED}\nvary_combat_length=0").report["sim"]["players"][0]["buffs"]
    assert (cooldowns["uptime"], cooldowns["start_count"]) == (pytest.approx(100 * 60 / 200), 3)
    assert 0 < proc["uptime"] < 8 * 100 * proc["start_count"] / 200


def test_resources_are_spent_and_regenerated(player: Any) -> None:
    collected = player["collected_data"]
    (gain,) = player["gains"]
    assert gain["mana"]["actual"] == collected["resource_lost"]["mana"]["mean"] > 0
    assert collected["resource_overflowed"]["mana"]["mean"] == gain["mana"]["overflow"] > 0


def test_a_long_fight_has_a_damage_over_time_of_an_hour(run: Run) -> None:
    report = run(f"{MAGE}\nmax_time=4000\nvary_combat_length=0\niterations=2").report
    assert len(report["sim"]["players"][0]["collected_data"]["timeline_dmg"]["data"]) == 3600


def test_equal_seeds_have_equal_details(run: Run) -> None:
    first, second = (run(DETAILED).report["sim"]["players"] for _ in range(2))
    assert first == second


def test_the_service_reads_what_the_report_says(run: Run) -> None:
    path = run(f"{DETAILED}\ncopy=Bea").directory / "report.json"
    check = check_report(path, extracted(path))
    assert (check.problems, check.compared > 100) == ([], True)
