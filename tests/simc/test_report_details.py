"""Details of reports: what is read, what is left out, and the limits."""

import io
import json
from typing import Any
from unittest.mock import patch

import pytest

from jobs.execution.results import merged
from simc import report_details, report_values
from simc.report_reader import read_report
from simc.reports import Report

BAD_NUMBERS: list[Any] = [-1, None, "5", True, [], {}, 1e31]


def read(text: bytes) -> Report:
    return read_report(io.BytesIO(text), max_bytes=64 << 20, with_details=True)


def details(*, targets: Any = (), options: Any = None, **player: Any) -> dict[str, Any]:
    """Return the details of a report with one actor, which has a DPS of 100 in fights of 300 s."""
    collected = {"dps": {"mean": 100.0}, "fight_length": {"mean": 300.0}, **player.pop("collected_data", {})}
    players = [{"name": "Base", "collected_data": collected, **player}]
    sim = {"options": {"iterations": 10, **(options or {})}, "players": players, "targets": targets}
    return dict(read(json.dumps({"sim": sim}).encode()).details or {})


def actor(**player: Any) -> dict[str, Any]:
    (found,) = details(**player)["actors"]
    return dict(found)


def mean(value: Any) -> dict[str, Any]:
    return {"mean": value}


def ability(name: str, amount: Any, **parts: Any) -> dict[str, Any]:
    return {"name": name, "type": "damage", "compound_amount": amount, **parts}


def hits(**counts: float) -> dict[str, Any]:
    return {name: {"count": mean(count)} for name, count in counts.items()}


def names(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["name"] for entry in entries]


class TestFight:
    def test_it_has_the_options_that_matter(self) -> None:
        options = {
            "fight_style": "Patchwerk",
            "desired_targets": 2,
            "max_time": 300.0,
            "vary_combat_length": 0.2,
            "target_error": 0.1,
            "dbc": {"Live": {"wow_version": "11.2"}, "PTR": {"wow_version": "12.0"}, "version_used": "PTR"},
        }
        fight = {"style": "Patchwerk", "targets": 2, "length": 300.0, "variation": 0.2, "iterations": 10}
        assert details(options=options)["fight"] == {**fight, "targetError": 0.1, "gameVersion": "12.0"}

    @pytest.mark.parametrize(
        ("desired", "listed", "count"), [(1, 2, 2), (1, 1, 1), (3, 2, 3), (1, 0, None), (2, 0, 2), (None, 4, 4)]
    )
    def test_targets_are_those_of_the_report(self, desired: int | None, listed: int, count: int | None) -> None:
        targets = [{"name": f"Enemy {number}"} for number in range(listed)]
        fight = details(options={"desired_targets": desired}, targets=targets)["fight"]
        assert fight.get("targets") == count

    @pytest.mark.parametrize("bad", BAD_NUMBERS)
    def test_impossible_options_are_left_out(self, bad: Any) -> None:
        names = ("fight_style", "desired_targets", "max_time", "vary_combat_length", "target_error", "dbc")
        fight = details(options=dict.fromkeys(names, bad))["fight"]
        assert fight.items() <= {"iterations": 10, "style": "5"}.items()


class TestAbilities:
    def test_figures_of_an_ability(self) -> None:
        bolt = ability(
            "bolt", 6000.0, id=7, school="frost", spell_name="Frostbolt", num_executes=mean(20.0),
            actual_amount=mean(6000.0), portion_aps=mean(20.5),
            direct_results=hits(hit=10.0, crit=5.0, miss=1.0), tick_results=hits(hit=4.0),
        )  # fmt: skip
        (found,) = actor(stats=[bolt], collected_data={"compound_dmg": mean(30000.0)})["abilities"]
        assert found == {
            "name": "Frostbolt", "id": 7, "school": "frost", "executes": 20.0, "share": 0.2, "dps": 20.5,
            "hits": 20.0, "average": 300.0, "critPercent": 25.0,
        }  # fmt: skip

    def test_an_ability_includes_its_children(self) -> None:
        child = ability(
            "hit", 100.0, actual_amount=mean(100.0), portion_aps=mean(4.0), direct_results=hits(crit=2.0, hit=2.0)
        )
        parent = ability("cast", 100.0, num_executes=mean(2.0), children=[child])
        (found,) = actor(stats=[parent])["abilities"]
        assert (found["dps"], found["hits"], found["average"], found["critPercent"]) == (4.0, 4.0, 25.0, 50.0)
        assert names(found["children"]) == ["hit"]

    def test_a_pet_is_an_ability_with_its_abilities_as_children(self) -> None:
        bite = ability("bite", 30.0, portion_aps=mean(9.0), portion_apse=mean(3.0))
        pet, own = actor(stats=[ability("own", 10.0, portion_aps=mean(1.0))], stats_pets={"wolf": [bite]})[
            "abilities"
        ]
        assert (pet["name"], pet["pet"], pet["share"], pet["dps"]) == ("wolf", True, 0.75, 3.0)
        assert (names(pet["children"]), pet["children"][0]["share"]) == (["bite"], 0.75)
        assert (own["share"], "pet" in own) == (0.25, False)

    def test_the_largest_come_first(self) -> None:
        stats = [ability(str(amount), amount) for amount in (1, 3, 2)]
        assert names(actor(stats=stats)["abilities"]) == ["3", "2", "1"]

    def test_an_unknown_dps_is_the_share_of_the_actor(self) -> None:
        first, second = actor(stats=[ability("a", 30), ability("b", 10)])["abilities"]
        assert (first["dps"], second["dps"]) == (75.0, 25.0)

    def test_equal_names_are_replaced_by_the_names_in_profiles(self) -> None:
        stats = [ability(name, 1, spell_name="Attack") for name in ("attack_mh", "attack_oh")]
        assert names(actor(stats=stats)["abilities"]) == ["attack_mh", "attack_oh"]

    def test_only_damage_counts(self) -> None:
        stats = [{**ability("heal", 50), "type": "heal"}, ability("nothing", 0), ability("bolt", 5)]
        assert names(actor(stats=stats)["abilities"]) == ["bolt"]

    @pytest.mark.parametrize("bad", BAD_NUMBERS)
    def test_impossible_numbers_are_left_out(self, bad: Any) -> None:
        figures = {"id": bad, "num_executes": mean(bad), "portion_aps": mean(bad), "direct_results": hits(crit=bad)}
        (found,) = actor(stats=[ability("a", 5, **figures)])["abilities"]
        assert found == {"name": "a", "share": 1.0, "dps": 100.0}

    @pytest.mark.parametrize("bad", [5, None, "x", [[]], [5], {"a": 1}, [{"children": 1}], [{"children": [[5]]}]])
    def test_abilities_of_a_wrong_type_are_left_out(self, bad: Any) -> None:
        assert "abilities" not in actor(stats=bad, stats_pets=bad)
        assert "abilities" not in actor(stats_pets={"a": bad})

    def test_each_level_is_limited(self) -> None:
        many = [ability(f"a{number}", number) for number in range(1, 1000)]
        parent, *_ = actor(stats=[ability("parent", 1e6, children=many), *many])["abilities"]
        assert len(parent["children"]) == report_details.MAX_ABILITIES
        assert names(parent["children"])[0] == "a999"

    def test_deep_abilities_are_left_out(self) -> None:
        deep = ability("a", 1)
        for _ in range(300):
            deep = ability("a", 1, children=[deep])
        levels, level = 0, actor(stats=[deep])["abilities"]
        while level:
            levels, level = levels + 1, level[0].get("children", [])
        assert levels == report_details.MAX_DEPTH

    def test_wide_trees_are_limited(self) -> None:
        tree = [ability("a" * 300, 1)] * 50
        for _ in range(2):
            tree = [ability("a", 1, children=tree)] * 20
        assert len(json.dumps(actor(stats=tree))) < 300_000


class TestBuffs:
    def test_buffs_and_debuffs_are_sorted_by_uptime(self) -> None:
        buffs = [{"name": "a", "uptime": 5.0, "spell": 9, "start_count": 2.5}, {"name": "b", "uptime": 50}]
        targets = [{"buffs": [{"name": "c", "source": "Base", "uptime": 30}]}]
        found = actor(buffs=buffs, targets=targets)["buffs"]
        assert [(buff["name"], buff["debuff"]) for buff in found] == [("b", False), ("c", True), ("a", False)]
        assert found[2] == {"name": "a", "id": 9, "uptime": 5.0, "count": 2.5, "debuff": False}

    def test_debuffs_of_other_actors_are_left_out(self) -> None:
        debuffs = [{"name": "mine", "uptime": 1}, {"name": "theirs", "source": "Other", "uptime": 1}]
        assert names(actor(targets=[{"buffs": debuffs}])["buffs"]) == ["mine"]

    def test_the_first_target_with_a_debuff_counts(self) -> None:
        targets = [{"buffs": [{"name": "a", "uptime": uptime}]} for uptime in (10, 90)]
        assert actor(targets=targets)["buffs"][0]["uptime"] == 10

    @pytest.mark.parametrize("bad", [*BAD_NUMBERS, 0, 101])
    def test_buffs_without_a_possible_uptime_are_left_out(self, bad: Any) -> None:
        assert "buffs" not in actor(buffs=[{"name": "a", "uptime": bad}], targets=[{"buffs": [bad]}, bad])

    def test_the_number_is_limited(self) -> None:
        buffs = [{"name": f"b{number}", "uptime": number / 10} for number in range(1, 1000)]
        found = actor(buffs=buffs, targets=[{"buffs": buffs}])["buffs"]
        assert len(found) == report_details.MAX_BUFFS


class TestTimeline:
    @staticmethod
    def damage(data: Any) -> Any:
        return actor(collected_data={"timeline_dmg": {"data": data}}).get("damage")

    def test_it_has_one_value_for_each_second(self) -> None:
        assert self.damage([1, 2.5, 0]) == {"step": 1, "values": [1.0, 2.5, 0.0]}

    @pytest.mark.parametrize(
        ("seconds", "step", "count"), [(600, 1, 600), (601, 2, 301), (1200, 2, 600), (9001, 16, 563)]
    )
    def test_a_long_fight_has_longer_steps(self, seconds: int, step: int, count: int) -> None:
        found = self.damage(list(range(seconds)))
        assert (found["step"], len(found["values"])) == (step, count)
        assert found["values"][1] == pytest.approx(step + (step - 1) / 2)
        last = seconds - (seconds % step or step)
        assert found["values"][-1] == pytest.approx((last + seconds - 1) / 2)

    @pytest.mark.parametrize("bad", [*([1, each] for each in BAD_NUMBERS), [], [0, 0], {}, 5])
    def test_an_impossible_one_is_left_out(self, bad: Any) -> None:
        assert self.damage(bad) is None


class TestResourcesAndStats:
    def test_resources_that_are_spent(self) -> None:
        gains = [
            {"name": "regen", "mana": {"actual": 5.0}},
            {"name": "x", "mana": {"actual": 2}, "health": {"actual": 9}},
        ]
        collected = {
            "resource_lost": {"mana": mean(6)},
            "resource_overflowed": {"mana": mean(1)},
            "combat_end_resource": {"mana": mean(3)},
        }
        found = actor(gains=gains, collected_data=collected)["resources"]
        assert found == [{"name": "mana", "gained": 7.0, "lost": 6.0, "overflowed": 1.0, "end": 3.0}]

    def test_stats_can_be_negative(self) -> None:
        stats = {"attribute": {"stamina": 5}, "stats": {"haste_pct": -0.1, "x": "?"}, "resources": []}
        found = actor(collected_data={"buffed_stats": stats})["stats"]
        assert found == {"attribute": {"stamina": 5.0}, "stats": {"haste_pct": -0.1}}

    def test_the_number_is_limited(self) -> None:
        many = {f"n{number}": mean(number) for number in range(1000)}
        found = actor(collected_data={"buffed_stats": {"stats": many}, "resource_lost": many})
        assert (len(found["stats"]["stats"]), len(found["resources"])) == (100, 100)

    @pytest.mark.parametrize("bad", [5, None, "x", [], [5], {"a": []}])
    def test_parts_of_a_wrong_type_are_left_out(self, bad: Any) -> None:
        keys = ("resource_lost", "resource_overflowed", "combat_end_resource", "buffed_stats", "timeline_dmg")
        found = actor(gains=bad, collected_data=dict.fromkeys(keys, bad))
        assert found.keys() == {"name", "dps", "fightLength"}


class TestActors:
    def test_class_and_specialization_are_separated(self) -> None:
        found = actor(specialization="Havoc Demon Hunter", race="night_elf", level=80, role="attack")
        assert (found["class"], found["specialization"]) == ("Demon Hunter", "Havoc")
        assert (found["race"], found["level"], found["role"]) == ("night_elf", 80, "attack")

    def test_unknown_texts_are_left_out(self) -> None:
        assert not {"race", "specialization", "class"} & actor(specialization="Unknown", race="none").keys()

    def test_names_are_cut_and_cleaned(self) -> None:
        assert actor(race="\x00" + "x" * 999)["race"] == "\ufffd" + "x" * 299

    def test_half_of_the_confidence_interval_is_the_error(self) -> None:
        dps = {"mean": 10.0, "mean_std_dev": 2.0, "std_dev": 4.0, "median": 9.0, "min": 1.0, "max": 20.0}
        found = actor(collected_data={"dps": dps})["dps"]
        assert found == {"mean": 10.0, "error": 3.92, "stddev": 4.0, "median": 9.0, "min": 1.0, "max": 20.0}

    def test_the_number_is_limited(self) -> None:
        player = {"name": "a", "collected_data": {"dps": {"mean": 1.0}}}
        report = read(json.dumps({"sim": {"players": [player] * 60}}).encode())
        assert (len(report.players), len((report.details or {})["actors"])) == (60, report_details.MAX_ACTORS)

    def test_actors_that_were_not_reached_are_left_out(self) -> None:
        players = [{"name": "a", "collected_data": {"dps": {"mean": 1.0}}}, {"name": "b"}]
        report = read(json.dumps({"sim": {"players": players}}).encode())
        assert names((report.details or {})["actors"]) == ["a"]

    def test_a_stage_that_reached_nobody_keeps_the_details_of_the_one_before(self) -> None:
        first = read(b'{"sim":{"players":[{"name":"a","collected_data":{"dps":{"mean":1}}}]}}')
        nobody = read(b'{"sim":{"players":[{"name":"a"}]}}')
        assert merged(first, nobody, is_complete=False).details == first.details
        assert merged(nobody, first, is_complete=False).details == first.details


class TestTime:
    def test_only_the_first_entries_of_a_list_are_read(self) -> None:
        buffs = [{"name": f"b{number}", "uptime": number} for number in range(1, 11)]
        with patch.object(report_values, "MAX_READ", 4):
            assert names(actor(buffs=buffs)["buffs"]) == ["b4", "b3", "b2", "b1"]

    def test_only_the_first_entries_of_all_lists_are_read(self) -> None:
        parents = [ability(f"p{number}", 9, children=[ability("child", 9)] * 3) for number in range(4)]
        with patch.object(report_values, "MAX_READ_IN_ALL", 6):
            found = actor(stats=parents, stats_pets={"pet": [ability("bite", 9)]}, race="orc")
        assert [len(parent.get("children", [])) for parent in found["abilities"]] == [3, 1]
        assert found["race"] == "orc"

    def test_each_report_is_counted_by_itself(self) -> None:
        with patch.object(report_values, "MAX_READ_IN_ALL", 2):
            assert actor(stats=[ability("a", 9)] * 2) == actor(stats=[ability("a", 9)] * 2)
            assert len(actor(stats=[ability("a", 9)] * 2)["abilities"]) == 2


def test_details_are_read_only_on_request() -> None:
    report = read_report(io.BytesIO(b'{"sim":{"players":[{"name":"a"}]}}'), max_bytes=999)
    assert report.details is None


def test_a_report_of_2020_has_details() -> None:
    player = {"name": "a", "talents": [{"name": "Starlord"}], "collected_data": {"dps": {"mean": 5.0}}}
    report = read(json.dumps({"sim": {"players": [player]}, "notifications": ["x"]}).encode())
    assert (report.details or {})["actors"] == [{"name": "a", "dps": {"mean": 5.0}, "talents": "Starlord"}]
