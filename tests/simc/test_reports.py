import copy
import io
import json
import math
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobs.planning.multistage import pooled, widening
from simc.report_reader import read_report
from simc.reports import BrokenReport, Report, summarise

FIXTURES = Path(__file__).parent / "fixtures"
SINGLE_PASS = {"enabled": False, "reason": "not_requested", "stages": []}
MAX_BYTES = 1_000_000
UNSTORABLE = "\x00\ud800"
FIGURES = ("mean", "mean_stddev", "stddev", "min", "max")


def load(name: str) -> Any:
    return json.loads((FIXTURES / f"{name}.json").read_text())


def read(document: object) -> Report:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return read_report(io.BytesIO(text), max_bytes=MAX_BYTES)


def summary(name: str, **changes: Any) -> dict[str, Any]:
    chosen = {"metric": "dps", "multistage": SINGLE_PASS, "partial": False, **changes}
    return summarise(read(load(name)), **chosen)


def figures(entry: dict[str, Any]) -> tuple[float, ...]:
    return tuple(entry[figure] for figure in FIGURES)


def with_player(**changes: object) -> dict[str, Any]:
    document: dict[str, Any] = load("single")
    document["sim"]["players"][0].update(changes)
    return document


def with_profilesets(count: int) -> dict[str, Any]:
    document: dict[str, Any] = load("profilesets")
    document["sim"]["profilesets"]["results"] = [{"name": f"set {n}", "mean": n} for n in range(1, count + 1)]
    return document


class TestSummary:
    def test_one_actor_is_the_main_actor(self) -> None:
        single = summary("single")
        assert set(single) == {"metric", "mainActor", "multiStage", "iterations"}
        assert (single["metric"], single["iterations"], single["multiStage"]) == ("dps", 2004, SINGLE_PASS)

    def test_figures_of_the_main_actor(self) -> None:
        actor = summary("single")["mainActor"]
        assert set(actor) == {"name", "mean_error", *FIGURES, "talents", "gear"}
        assert (actor["name"], actor["talents"]) == ("Frost_Mage", "CAEAexampleTalentString")
        assert figures(actor) == (1000, 2.5, 100, 800, 1250)
        assert actor["mean_error"] == pytest.approx(1.96 * 2.5)

    def test_raid_dps_uses_the_figures_of_the_raid(self) -> None:
        raid = summary("single", metric="raid_dps")
        assert raid["metric"] == "raid_dps"
        assert figures(raid["mainActor"]) == (1050, 3, 120, 805, 1300)

    def test_items_are_split_into_their_parts(self) -> None:
        head, ring, weapon = summary("single")["mainActor"]["gear"]
        assert (head.pop("slot"), head.pop("name"), head.pop("ilevel")) == ("head", "hood_of_winter", 684)
        ids = {"id": 229343, "bonusIds": [6652, 10356], "gemIds": [213743], "enchantId": 7933}
        assert head == {**ids, "craftedStatIds": [36, 49]}
        assert ring["gemIds"] == [213458, 213467]
        assert "enchantId" not in ring
        assert weapon == {"slot": "main_hand", "name": "plain_stick"}

    def test_profilesets_are_ranked_by_mean(self) -> None:
        ranking = summary("profilesets")["mainActor"]["profilesets"]
        assert ranking["count"] == 3
        assert [result["name"] for result in ranking["results"]] == ["best", "middle", "worst"]

    def test_figures_of_a_profileset(self) -> None:
        best = summary("profilesets")["mainActor"]["profilesets"]["results"][0]
        assert set(best) == {"name", "mean_error", *FIGURES, "stage"}
        assert figures(best) == (530, 2, 23, 430, 630)
        assert (best["mean_error"], best["stage"]) == (pytest.approx(1.96 * 2), 1)

    def test_200_profilesets_are_listed_and_all_are_counted(self) -> None:
        result = summarise(read(with_profilesets(201)), metric="dps", multistage=SINGLE_PASS, partial=False)
        ranking = result["mainActor"]["profilesets"]
        assert (ranking["count"], len(ranking["results"])) == (201, 200)
        assert [ranking["results"][0]["name"], ranking["results"][-1]["name"]] == ["set 201", "set 2"]

    def test_profilesets_carry_the_stage_that_measured_them(self) -> None:
        text = (FIXTURES / "profilesets.json").read_bytes()
        report = read_report(io.BytesIO(text), max_bytes=MAX_BYTES, stage=3)
        assert {profileset.stage for profileset in report.profilesets} == {3}

    def test_profilesets_have_the_first_metric_of_a_list(self) -> None:
        ranking = summary("metrics_list")["mainActor"]["profilesets"]
        assert ranking["count"] == 1
        assert figures(ranking["results"][0]) == (505, 1.75, 22, 405, 605)

    def test_a_report_of_2020_whose_actor_did_no_damage(self) -> None:
        actor = summary("year_2020")["mainActor"]
        assert (actor["mean"], actor["mean_error"], actor["max"]) == (0, 0, 0)
        assert actor["talents"] == "Starlord/Guardian Affinity"
        assert actor["gear"][0]["bonusIds"] == [7187, 1498]

    def test_copies_have_no_main_actor(self) -> None:
        copies = summary("copies")
        assert copies["mainActor"] is None
        assert copies["actors"]["count"] == 2
        assert [actor["name"] for actor in copies["actors"]["results"]] == ["Base", "Variant Ä"]
        assert set(copies["actors"]["results"][0]) == {"name", "mean_error", *FIGURES}

    def test_the_first_of_several_actors_has_the_profilesets(self) -> None:
        document = load("copies")
        document["sim"]["profilesets"] = load("profilesets")["sim"]["profilesets"]
        result = summarise(read(document), metric="dps", multistage=SINGLE_PASS, partial=False)
        assert result["mainActor"]["name"] == "Base"
        assert result["actors"]["count"] == 2

    def test_a_job_in_stages_has_no_number_of_iterations(self) -> None:
        staged = {"enabled": True, "reason": None, "stages": [{"stage": 1, "label": "initial"}]}
        result = summary("profilesets", multistage=staged)
        assert "iterations" not in result
        assert result["multiStage"] == staged

    def test_a_run_stopped_early_is_marked(self) -> None:
        assert summary("single", partial=True)["partial"] is True
        assert "partial" not in summary("single")

    @pytest.mark.parametrize(("key", "length"), [("name", 10_001), ("talents", 2000)])
    def test_names_are_whole_and_talents_are_cut(self, key: str, length: int) -> None:
        document = with_player(**{key: UNSTORABLE + "n" * 9999})
        actor = summarise(read(document), metric="dps", multistage=SINGLE_PASS, partial=False)["mainActor"]
        assert actor[key] == "\ufffd?" + "n" * (length - 2)

    def test_names_of_items_are_storable_and_cut(self) -> None:
        item = {"name": UNSTORABLE + "n" * 9999}
        assert read(with_player(gear={"head": item})).players[0].gear[0]["name"] == "\ufffd?" + "n" * 298

    @pytest.mark.parametrize("talents", [None, 5, {}, [1], [{"name": 5}], [{}]])
    def test_talents_in_another_layout_are_ignored(self, talents: object) -> None:
        assert read(with_player(talents=talents)).players[0].talents == ""

    def test_200_actors_are_listed_and_all_are_counted(self) -> None:
        document = load("copies")
        document["sim"]["players"] *= 101
        actors = summarise(read(document), metric="dps", multistage=SINGLE_PASS, partial=False)["actors"]
        assert (actors["count"], len(actors["results"])) == (202, 200)

    @pytest.mark.parametrize("gear", [None, [], {"head": 1}, {"head": {"name": 5}}, {"elbow": {"name": "x"}}])
    def test_gear_in_another_layout_is_ignored(self, gear: object) -> None:
        assert read(with_player(gear=gear)).players[0].gear == ()

    def test_an_item_keeps_only_valid_numbers(self) -> None:
        encoded = f"hat,id={'9' * 11},bonus_id=1:2/x/\u0663/-4/{'5' * 5000},ilevel=,gem_id,enchant_id=0x7"
        item = {"name": "hat", "encoded_item": encoded, "ilevel": True}
        gear = read(with_player(gear={"head": item})).players[0].gear
        assert gear == ({"slot": "head", "name": "hat", "bonusIds": [1, 2]},)

    @pytest.mark.parametrize("encoded", [None, 5, [], ""])
    def test_an_item_without_an_encoding_keeps_its_name(self, encoded: object) -> None:
        gear = read(with_player(gear={"head": {"name": "hat", "encoded_item": encoded}})).players[0].gear
        assert gear == ({"slot": "head", "name": "hat"},)

    def test_an_item_keeps_40_bonuses(self) -> None:
        item = {"name": "hat", "encoded_item": "hat,bonus_id=" + "/".join(["7"] * 99)}
        assert read(with_player(gear={"head": item})).players[0].gear[0]["bonusIds"] == [7] * 40


class TestReading:
    def test_severe_messages_are_reported(self) -> None:
        assert read(load("single")).errors == ("Action 'frozen_orb' is not available",)

    def test_20_severe_messages_are_kept_and_cut(self) -> None:
        logs = [{"level": "severe", "message": "x" * 999}] * 99
        assert read({**load("single"), "logs": logs}).errors == ("x" * 500,) * 20

    def test_messages_of_2020_have_no_grade(self) -> None:
        assert read(load("year_2020")).errors == ()

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (b"", "empty"),
            (b" ", "not valid JSON"),
            ((FIXTURES / "single.json").read_bytes()[:-200], "truncated"),
            ((FIXTURES / "single.json").read_bytes() + b"}", "not valid JSON"),
            (b"<html>", "not valid JSON"),
            (b"[]", "not an object"),
            (b"{}", "contains no actors"),
            (b'{"sim": {"players": []}}', "contains no actors"),
            (b'{"sim": NaN}', "not valid JSON"),
            (b'{"x": -Infinity}', "not valid JSON"),
            (b'{"x": ' + b"[" * 100_000, "nested too deeply"),
            (b'{"sim": ' + b"[" * 100_000, "nested too deeply"),
            (b'{"sim": {"players": ' + b"[" * 100_000, "nested too deeply"),
            (b'{"x": [' + b"[]," * 200_000, "too many values"),
            (b'{"sim": ' + b"9" * 5000 + b"}", "too many digits"),
            (b'{"sim": 1e99999999999999999999}', "too many digits"),
            (b" " * (MAX_BYTES + 1), "larger than"),
        ],
        ids=lambda value: str(value)[:20],
    )
    def test_other_documents_are_rejected(self, text: bytes, reason: str) -> None:
        with pytest.raises(BrokenReport, match=reason):
            read(text)

    @pytest.mark.parametrize("mean", ["1e999", "1e31", "-1e31", "9" * 400, '"5"', "true", "null", "[]"])
    def test_an_invalid_figure_is_rejected(self, mean: str) -> None:
        text = json.dumps(load("single")).replace('"mean": 1000.0', f'"mean": {mean}')
        with pytest.raises(BrokenReport, match="mean"):
            read(text.encode())

    @given(figures=st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 6))
    @example(figures=(1e30, 1e-200, 1e30, 1, 1e-200, 1))
    def test_all_accepted_figures_can_be_compared(self, figures: tuple[float, ...]) -> None:
        document = with_profilesets(2)
        first, second = document["sim"]["profilesets"]["results"]
        first.update(zip(("mean", "mean_stddev", "stddev"), figures[:3], strict=True))
        second.update(zip(("mean", "mean_stddev", "stddev"), figures[3:], strict=True))
        with suppress(BrokenReport):
            profilesets = read(document).profilesets
            names = {first["name"]: second["name"]}
            assert widening(profilesets, names) >= 1
            assert all(math.isfinite(entry.statistics.mean) for entry in pooled(profilesets, names))

    @pytest.mark.parametrize(
        ("key", "value"),
        [("players", {}), ("players", [1]), ("profilesets", []), ("statistics", 1), ("options", "x")],
    )
    def test_a_value_of_another_type_is_rejected(self, key: str, value: object) -> None:
        document = load("single")
        document["sim"][key] = value
        with pytest.raises(BrokenReport, match=key):
            read(document)

    def test_a_profileset_without_a_name_is_rejected(self) -> None:
        document = with_profilesets(2)
        del document["sim"]["profilesets"]["results"][1]["name"]
        with pytest.raises(BrokenReport, match="name"):
            read(document)

    def test_an_invalid_byte_is_replaced(self) -> None:
        text = json.dumps(load("single")).replace("Frost_Mage", "M?ge").encode().replace(b"M?ge", b"M\xe4ge")
        assert read(text).players[0].name == "M\ufffdge"

    def test_the_last_of_repeated_keys_counts(self) -> None:
        text = json.dumps(load("single")).replace('"players":', '"players": [{"name": "Early"}], "players":')
        assert [player.name for player in read(text.encode()).players] == ["Frost_Mage"]

    def test_only_the_first_actor_has_gear_and_talents(self) -> None:
        document = load("single")
        document["sim"]["players"] *= 2
        first, second = read(document).players
        assert first.gear
        assert (second.gear, second.talents) == ((), "")

    def test_a_seed_of_64_bits_is_read(self) -> None:
        document = load("single")
        document["sim"]["options"]["seed"] = 2**64 - 1
        assert read(document).iterations == 2004

    @pytest.mark.slow
    def test_parts_that_are_not_needed_use_no_memory(self) -> None:
        text = json.dumps(with_player(buffs=[{"timeline": [0.5] * 1000}] * 600)).encode()
        tracemalloc.start()
        read_report(io.BytesIO(text), max_bytes=10 * MAX_BYTES)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < len(text)

    def test_a_report_of_the_largest_size_is_read(self) -> None:
        text = (FIXTURES / "single.json").read_bytes()
        assert read_report(io.BytesIO(text), max_bytes=len(text)).iterations == 2004

    @given(st.binary())
    def test_any_bytes_are_handled(self, text: bytes) -> None:
        with pytest.raises(BrokenReport):
            read(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=8,
)


def paths_in(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    below = [chosen_path for key in keys for chosen_path in paths_in(value[key], (*path, key))]  # type: ignore[index]
    return [path, *below] if path else below


def replaced(document: Any, path: tuple[Any, ...], value: object) -> Any:
    changed = parent = copy.deepcopy(document)
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return changed


@pytest.mark.parametrize("name", ["single", "profilesets", "metrics_list", "year_2020", "copies"])
@given(data=st.data(), value=JSON)
def test_any_json_is_rejected_or_gives_a_valid_summary(name: str, data: st.DataObject, value: object) -> None:
    document = load(name)
    chosen_path = data.draw(st.sampled_from(paths_in(document)))
    try:
        report = read(replaced(document, chosen_path, value))
    except BrokenReport:
        return
    result = summarise(report, metric="raid_dps", multistage=SINGLE_PASS, partial=True)
    stored = json.dumps(result, allow_nan=False, ensure_ascii=False).encode()
    assert b"\\u0000" not in stored.replace(b"\\\\", b"")
