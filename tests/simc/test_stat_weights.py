"""Stat weights and plots of reports: what is read, what is left out, and the text for Pawn."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from simc import report_values, stat_plots, stat_weights
from tests.simc.details_check import check_report, extracted
from tests.simc.test_report_details import BAD_NUMBERS, read

FIXTURES = Path(__file__).parent / "fixtures"
DPS = {"mean": 1000.0, "mean_std_dev": 1.0, "std_dev": 30.0}


def details(*players: dict[str, Any], plots: Any = None, scaling: Any = None) -> list[dict[str, Any]]:
    """Return the actors of a report, each with a mean of 1,000 and a standard error of 1."""
    entries = [{"name": "Ann", "collected_data": {"dps": DPS}, **player} for player in players]
    sim: dict[str, Any] = {"players": entries, "options": {"iterations": 900}}
    if scaling is not None:
        sim["options"]["scaling"] = scaling
    if plots is not None:
        sim["dps_plot"] = plots
    return list((read(json.dumps({"sim": sim}).encode()).details or {})["actors"])


def weights(factors: Any, deltas: Any = None, **player: Any) -> dict[str, Any]:
    (found,) = details({"scale_factors": factors, "scale_deltas": deltas or {}, **player})
    return dict(found.get("weights", {}))


def curve(*points: Any) -> list[dict[str, Any]]:
    return [{"rating": rating, "dps": dps, "dps-error": error} for rating, dps, error in points]


TWO_POINTS = curve((0, 1000, 2), (160, 1100, 3))


class TestReports:
    @pytest.mark.parametrize("name", ["weights_v2", "weights_v3"])
    def test_weights_and_curves_are_those_of_the_report(self, name: str) -> None:
        path = FIXTURES / f"{name}.json"
        check = check_report(path, extracted(path))
        assert check.problems == []
        assert check.compared > 15

    def test_stats_that_were_not_simulated_are_left_out(self) -> None:
        (actor,) = extracted(FIXTURES / "weights_v3.json")["actors"]
        assert [each["stat"] for each in actor["weights"]["stats"]] == ["Haste", "Crit", "Vers", "Mastery"]

    def test_a_pet_has_no_curves(self) -> None:
        actors = extracted(FIXTURES / "weights_v2.json")["actors"]
        assert [[each["stat"] for each in actor["plots"]] for actor in actors] == [
            ["Crit", "Haste", "Mastery"],
            ["Crit", "Mastery"],
        ]

    def test_options_after_the_actors_count(self) -> None:
        text = json.dumps(
            {
                "sim": {
                    "players": [{"name": "Ann", "collected_data": {"dps": DPS}, "scale_factors": {"Crit": 1.0}}],
                    "options": {"scaling": {"scale_over": "hps"}},
                }
            }
        )
        (actor,) = (read(text.encode()).details or {})["actors"]
        assert actor["weights"]["metric"] == "hps"


class TestWeights:
    def test_the_largest_come_first(self) -> None:
        found = weights({"Crit": 1.0, "Int": 3.0, "Haste": -2.0})
        assert [(each["stat"], each["name"]) for each in found["stats"]] == [
            ("Int", "Intellect"),
            ("Haste", "Haste"),
            ("Crit", "Critical strike"),
        ]

    def test_the_error_is_that_of_two_simulations(self) -> None:
        found = weights({"Crit": 1.0, "Wdps": 2.0}, {"Crit": 300.0, "Wdps": -0.5})
        errors = {each["stat"]: each["error"] for each in found["stats"]}
        assert errors["Crit"] == pytest.approx(1.96 * math.sqrt(2) / 300)
        # The simulator gives it for a tenth of a point.
        assert errors["Wdps"] == pytest.approx(1.96 * math.sqrt(2) / 0.5 / 10)

    @pytest.mark.parametrize("scaling", [{"scale_over": "hps"}, {"normalize_scale_factors": 1}])
    def test_the_error_is_unknown_for_other_units(self, scaling: Any) -> None:
        player = {"scale_factors": {"Crit": 1.0}, "scale_deltas": {"Crit": 300.0}}
        (found,) = details(player, scaling=scaling)
        assert "error" not in found["weights"]["stats"][0]
        assert found["weights"]["normalized"] == ("normalize_scale_factors" in scaling)

    @pytest.mark.parametrize("bad", BAD_NUMBERS[1:])
    def test_bad_numbers_are_left_out(self, bad: Any) -> None:
        found = weights({"Int": 2.0, "Crit": bad}, {"Int": bad})
        assert [each["stat"] for each in found["stats"]] == ["Int"]
        assert "error" not in found["stats"][0]

    @pytest.mark.parametrize("factors", [None, [], {}, "x", 5, {"Crit": 0.0}, {"": 1.0}, [{"Crit": 1}]])
    def test_without_factors_there_are_no_weights(self, factors: Any) -> None:
        assert weights(factors) == {}

    def test_an_unknown_stat_keeps_its_name(self) -> None:
        found = weights({"\x00Luck" + "x" * 999: 2.0})
        (stat,) = found["stats"]
        assert stat["stat"] == stat["name"] == "\ufffdLuck" + "x" * 295
        assert "pawn" not in found

    def test_there_are_at_most_50_stats(self) -> None:
        assert (
            len(weights({f"s{number}": 1.0 + number for number in range(6000)})["stats"]) == stat_weights.MAX_STATS
        )

    def test_a_repeated_stat_counts_once(self) -> None:
        text = b'{"sim": {"options": {}, "players": [{"name": "A", "collected_data": {"dps": {"mean": 5.0}}, '
        text += b'"scale_factors": {"Crit": 1.5, "Crit": 2.5}}]}}'
        (actor,) = (read(text).details or {})["actors"]
        assert [each["weight"] for each in actor["weights"]["stats"]] == [2.5]


class TestPawn:
    def test_it_has_class_specialization_and_known_stats(self) -> None:
        found = weights(
            {"Haste": 1.25, "Int": 20.5, "Dodge": 3.0, "Vers": 0.12345}, specialization="Frost Death Knight"
        )
        assert found["pawn"] == (
            '( Pawn: v1: "Ann-Frost": Class=DeathKnight, Spec=Frost, Intellect=20.50, HasteRating=1.25, '
            "Versatility=0.1235 )"
        )

    def test_without_a_class_it_has_the_name(self) -> None:
        assert weights({"Crit": 2.0})["pawn"] == '( Pawn: v1: "Ann": CritRating=2.00 )'

    @pytest.mark.parametrize(
        ("name", "shown"),
        [
            ('A"): Class=Mage ( "', "A Class Mage"),
            ("|cffff0000Red|r", "cffff0000Red r"),
            ("Ünïcöde 名前", "Ünïcöde 名前"),
            ('"""', "Weights"),
            ("n" * 500, "n" * 60),
            ("two\nlines", "two lines"),
        ],
    )
    def test_a_name_cannot_end_or_change_the_text(self, name: str, shown: str) -> None:
        pawn = weights({"Crit": 2.0}, name=name)["pawn"]
        assert pawn == f'( Pawn: v1: "{shown}": CritRating=2.00 )'

    def test_huge_weights_have_no_exponent(self) -> None:
        assert "e+" not in weights({"Crit": 1e29})["pawn"]


class TestPlots:
    @pytest.mark.parametrize("bad", BAD_NUMBERS)
    def test_bad_points_are_left_out(self, bad: Any) -> None:
        points = [*TWO_POINTS, *curve((320, bad, 1)), *curve((bad, 5, 1)), *curve((480, 9, bad)), bad]
        (actor,) = details({}, plots=[{"name": "Ann", "data": [{"Crit": points}]}])
        found = actor["plots"][0]["points"]
        ratings = [point["change"] for point in found]
        assert ratings == [*([-1.0] if bad == -1 else []), 0.0, 160.0, 480.0]
        assert "error" not in found[-1]

    @pytest.mark.parametrize(
        "plots",
        [
            "x",
            {},
            [],
            [5],
            [{"name": "Ann"}],
            [{"name": 5, "data": [{"Crit": TWO_POINTS}]}],
            [{"name": "Ann", "data": {"Crit": TWO_POINTS}}],
            [{"name": "Ann", "data": [{"Crit": TWO_POINTS[:1]}]}],
            [{"name": "Ann", "data": [{"Crit": {"rating": 1}}]}],
            [{"name": "Bob", "data": [{"Crit": TWO_POINTS}]}],
        ],
    )
    def test_without_curves_there_are_no_plots(self, plots: Any) -> None:
        (actor,) = details({}, plots=plots)
        assert "plots" not in actor

    def test_points_are_in_the_order_of_their_changes(self) -> None:
        (actor,) = details({}, plots=[{"name": "Ann", "data": [{"Luck": TWO_POINTS[::-1]}]}])
        assert actor["plots"] == [
            {
                "stat": "Luck",
                "name": "Luck",
                "points": [
                    {"change": 0.0, "dps": 1000.0, "error": 2.0},
                    {"change": 160.0, "dps": 1100.0, "error": 3.0},
                ],
            }
        ]

    def test_a_curve_has_at_most_201_points(self) -> None:
        points = curve(*((number, 5.0, 1.0) for number in range(1000)))
        (actor,) = details({}, plots=[{"name": "Ann", "data": [{"Crit": points}]}])
        assert len(actor["plots"][0]["points"]) == stat_plots.MAX_CURVE_POINTS == 201

    def test_an_actor_has_at_most_50_curves(self) -> None:
        (actor,) = details({}, plots=[{"name": "Ann", "data": [{f"s{n}": TWO_POINTS} for n in range(99)]}])
        assert len(actor["plots"]) == stat_weights.MAX_STATS

    def test_a_report_has_at_most_10_000_points(self) -> None:
        names = [f"actor {number}" for number in range(30)]
        data = [{f"s{stat}": curve(*((n, 5.0, 1.0) for n in range(200)))} for stat in range(5)]
        actors = details(
            *({"name": name} for name in names), plots=[{"name": name, "data": data} for name in names]
        )
        assert sum("plots" in actor for actor in actors) == stat_plots.MAX_ALL_POINTS // 1000

    def test_the_lists_count_towards_the_limit_of_the_report(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(report_values, "MAX_READ_IN_ALL", 3)
        (actor,) = details({}, plots=[{"name": "Ann", "data": [{"Crit": TWO_POINTS}]}])
        assert "plots" not in actor
