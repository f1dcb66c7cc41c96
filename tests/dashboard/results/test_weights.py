"""Stat weights and plots on result pages: what is shown, and in which words."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.http import QueryDict
from django.template.loader import render_to_string

from dashboard.results import plots as plots_module
from dashboard.results.options import Options
from dashboard.results.plots import plots_of
from dashboard.results.weights import WeightsView, weights_of
from jobs.results.details import Actor, Plot, PlotPoint, Weight, Weights, details_in
from simc.report_reader import read_report

FIXTURES = Path(__file__).parents[2] / "simc" / "fixtures"


def actors(name: str) -> tuple[Actor, ...]:
    """Return the actors of a sample as pages read them."""
    with (FIXTURES / f"{name}.json").open("rb") as stream:
        document = read_report(stream, max_bytes=1 << 20, with_details=True).details
    return details_in(json.loads(json.dumps(document))).actors


def view(*stats: tuple[str, float, float | None], query: str = "", **fields: Any) -> WeightsView:
    listed = tuple(Weight(stat=stat, name=stat, weight=weight, error=error) for stat, weight, error in stats)
    found = weights_of(Weights(metric="dps", stats=listed, **fields), Options.of(QueryDict(query)))
    assert found is not None
    return found


def page_of_weights(weights: WeightsView) -> str:
    return render_to_string("results/weights.html", {"weights": weights})


def page_of_plots(plots: tuple[Plot, ...]) -> str:
    return render_to_string("results/plots.html", {"plots": plots_of(plots)})


def plot(*points: tuple[float, float, float | None], stat: str = "Crit") -> Plot:
    return Plot(
        stat=stat,
        name=stat,
        points=tuple(PlotPoint(change=change, dps=dps, error=error) for change, dps, error in points),
    )


class TestWeights:
    def test_the_strongest_is_one(self) -> None:
        found = view(("Int", 20.0, 1.0), ("Crit", 10.0, 1.0))
        assert [(row.relative, row.margin) for row in found.rows] == [(1.0, 0.05), (0.5, 0.05)]
        assert found.reference == "Int"

    def test_a_visitor_can_choose_another_stat(self) -> None:
        found = view(("Int", 20.0, 1.0), ("Crit", 10.0, 1.0), query="stat=Crit&actor=2")
        assert [row.relative for row in found.rows] == [2.0, 1.0]
        assert [(choice["name"], choice["is_current"], choice["link"]) for choice in found.choices] == [
            ("Int", False, "?actor=2"),
            ("Crit", True, "?actor=2&stat=Crit"),
        ]

    @pytest.mark.parametrize("stat", ["Luck", "", "x" * 1000, "<script>"])
    def test_an_unknown_choice_counts_as_none(self, stat: str) -> None:
        assert view(("Int", 20.0, 1.0), ("Crit", 10.0, 1.0), query=f"stat={stat}").reference == "Int"

    def test_weights_within_their_error_are_even_and_no_choice(self) -> None:
        found = view(("Int", 20.0, 1.0), ("Crit", 1.0, 1.0), ("Haste", -2.0, 1.0), query="stat=Crit")
        assert [row.even for row in found.rows] == [False, True, False]
        assert [choice["name"] for choice in found.choices] == ["Int", "Haste"]
        assert found.reference == "Int"
        assert page_of_weights(found).count(", within its margin of error") == 1

    def test_a_negative_weight_keeps_its_sign(self) -> None:
        found = view(("Haste", -4.0, 1.0), ("Crit", 2.0, 1.0))
        assert [row.relative for row in found.rows] == [-1.0, 0.5]
        page = page_of_weights(found)
        assert "\N{MINUS SIGN}1.00" in page

    def test_bars_and_whiskers_are_on_one_axis(self) -> None:
        found = view(("Int", 10.0, 5.0), ("Crit", 5.0, None))
        # From 0 to 1.5
        assert found.zero == "M0 0V34"
        assert [row.bar for row in found.rows] == ["M0 17H667", "M0 17H333"]
        assert [row.whisker for row in found.rows] == ["M333 12V22M333 17H1000M1000 12V22", ""]

    def test_all_weights_within_their_errors_are_shown(self) -> None:
        found = view(("Int", 1.0, 9.0), ("Crit", 0.5, 9.0))
        assert [row.even for row in found.rows] == [True, True]
        assert found.reference == "Int"

    @pytest.mark.parametrize("weights", [None, Weights(), Weights(stats=(Weight(stat="Int"),))])
    def test_without_weights_there_is_no_section(self, weights: Weights | None) -> None:
        assert weights_of(weights, Options()) is None

    def test_the_page_has_the_numbers_of_the_report(self) -> None:
        mage, warrior = actors("weights_v2")
        found = weights_of(mage.weights, Options())
        assert found is not None
        page = page_of_weights(found)
        report = json.loads((FIXTURES / "weights_v2.json").read_text())["sim"]["players"][0]["scale_factors"]
        rows = re.findall(r'<th scope="row"><bdi>([^<]*)</bdi>.*?exact">([0-9.,]+)', page)
        assert [float(value) for _, value in rows] == sorted((round(v, 2) for v in report.values()), reverse=True)
        assert rows[0][0] == "Intellect"
        assert 'data-copy="( Pawn: v1: &quot;Frostia-Frost&quot;: Class=Mage' in page
        assert "Mastery" in page
        other = weights_of(warrior.weights, Options())
        assert other is not None
        assert [row.name for row in other.rows if row.even] == ["Off-hand DPS", "Haste"]

    def test_unknown_errors_are_stated(self) -> None:
        page = page_of_weights(view(("Int", 2.0, None), normalized=True))
        assert "The margins of error of these weights are unknown." in page
        assert "The profile normalizes its weights." in page
        assert "±" not in page

    def test_hostile_names_are_escaped(self) -> None:
        page = page_of_weights(view(("<b>x", 2.0, 1.0), ('"><i>', 3.0, 1.0), pawn='"><script>'))
        assert "<b>" not in page
        assert "<i>" not in page
        assert "<script>" not in page

    def test_huge_numbers_do_not_fail(self) -> None:
        assert "Int" in page_of_weights(view(("Int", 1e30, 1e30), ("Crit", 1e-30, 1e30)))


class TestPlots:
    def test_the_table_has_the_points_of_the_report(self) -> None:
        mage, _ = actors("weights_v2")
        page = page_of_plots(mage.plots)
        rows = re.findall(r'<th class="num" scope="row">([^<]*)</th>(.*?)</tr>', page)
        found = {
            change: [float(value.replace(",", "")) for value in re.findall(r'<td class="num">([0-9,]+)', cells)]
            for change, cells in rows
        }
        report = json.loads((FIXTURES / "weights_v2.json").read_text())["sim"]["dps_plot"][0]["data"]
        curves = [points for entry in report for points in entry.values()]
        expected = {}
        for index, point in enumerate(curves[0]):
            sign = f"{point['rating']:+,.0f}".replace("-", "\N{MINUS SIGN}") if point["rating"] else "0"
            expected[sign] = [round(points[index]["dps"]) for points in curves]
        assert found == expected

    def test_each_stat_has_a_chart_on_the_same_axes(self) -> None:
        found = plots_of((plot((-10, 100, 5), (10, 200, 5)), plot((-20, 150, None), (20, 300, None), stat="Haste")))
        assert found is not None
        crit, haste = found.curves
        # From 0 to 300 DPS, and from -20 to 20
        assert crit.line == "M250 133.4L750 66.6"
        assert crit.band == "M250 130L750 63.4L750 70L250 136.6z"
        assert haste.line == "M0 100L1000 0"
        assert found.zero == "M500 0V200"
        assert [change for change, _ in found.table] == ["\N{MINUS SIGN}20", "\N{MINUS SIGN}10", "+10", "+20"]

    def test_points_without_an_error_have_none(self) -> None:
        page = page_of_plots((plot((0, 100, None), (10, 200, 5)),))
        assert page.count("±") == 1

    @pytest.mark.parametrize(
        "plots", [(), (Plot(),), (plot((0, 100, 5)),), (Plot(points=(PlotPoint(), PlotPoint())),)]
    )
    def test_without_curves_there_is_no_section(self, plots: tuple[Plot, ...]) -> None:
        assert plots_of(plots) is None

    def test_many_curves_and_points_are_limited(self) -> None:
        many = tuple(
            plot(*((number, 100 + number, 1) for number in range(201)), stat=f"s{index}") for index in range(50)
        )
        found = plots_of(many)
        assert found is not None
        assert (len(found.curves), found.left_out) == (plots_module.MAX_CURVES, 38)
        assert len(found.table) <= plots_module.MAX_ROWS
        page = page_of_plots(many)
        assert "Other stats are only in the report." in page
        assert "The report has more points." in page
        assert len(page) < 150_000

    def test_hostile_names_are_escaped(self) -> None:
        page = page_of_plots((plot((0, 100, 5), (1, 100, 5), stat='"><script>'),))
        assert "<script>" not in page

    def test_flat_and_huge_curves_do_not_fail(self) -> None:
        assert "Crit" in page_of_plots((plot((0, 100, 0), (1, 100, 0)),))
        assert "Crit" in page_of_plots((plot((0, 1e30, 1e30), (1e30, 0, None)),))
