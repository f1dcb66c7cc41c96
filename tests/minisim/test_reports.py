"""The JSON and HTML reports, also of hostile profiles."""

import json
import re
from html.parser import HTMLParser

import pytest

from tests.minisim.conftest import MAGE, Run

HOSTILE = "</title><script>alert('1')</script>&quot;\u2028\x01\\"


def test_the_json_report_has_the_real_layout(run: Run) -> None:
    report = run(f"{MAGE}\nprofileset.a+=level=70").report
    assert (report["simulator"], report["report_version"]) == ("minisim", "2.0.0")
    assert report["version"].startswith("minisim-")
    options, player = report["sim"]["options"], report["sim"]["players"][0]
    assert (options["iterations"], options["seed"], options["fight_style"]) == (100, 1, "Patchwerk")
    assert options["confidence_estimator"] == pytest.approx(1.96, abs=0.001)
    assert options["dbc"]["Live"]["wow_version"] == "11.2.0.63003"
    assert (player["name"], player["level"], player["specialization"]) == ("Ada", 80, "Frost Mage")
    assert player["gear"]["main_hand"]["encoded_item"] == "staff,id=7,ilevel=640"
    assert report["sim"]["statistics"]["raid_dps"]["mean"] == player["collected_data"]["dps"]["mean"]


def test_statistics_are_consistent(run: Run) -> None:
    dps = run(MAGE).dps
    assert dps["min"] < dps["median"] < dps["max"]
    assert dps["sum"] == pytest.approx(dps["mean"] * dps["count"])
    assert dps["mean_std_dev"] == pytest.approx(dps["std_dev"] / dps["count"] ** 0.5)


def test_profilesets_include_their_error(run: Run) -> None:
    block = run(f'{MAGE}\nprofileset."A, 1"+=level=70').report["sim"]["profilesets"]
    row = block["results"][0]
    assert (block["metric"], row["name"]) == ("Damage per Second", "A, 1")
    assert row["min"] < row["first_quartile"] < row["median"] < row["third_quartile"] < row["max"]
    assert row["mean_error"] == pytest.approx(1.96 * row["mean_stddev"], rel=0.001)


def test_copies_fight_with_their_source(run: Run) -> None:
    report = run(f'{MAGE}\ncopy="Better One",Ada\nmain_hand=staff,id=7,ilevel=700').report
    first, second = (player["collected_data"]["dps"]["mean"] for player in report["sim"]["players"])
    assert second > first
    assert report["sim"]["statistics"]["raid_dps"]["mean"] == pytest.approx(first + second)


def test_raid_dps_includes_all_actors(run: Run) -> None:
    report = run(f"{MAGE}\ncopy=Bea\nprofileset.a+=level=79", "profileset_metric=raid_dps").report
    assert (
        report["sim"]["profilesets"]["results"][0]["mean"]
        > 1.5 * report["sim"]["players"][0]["collected_data"]["dps"]["mean"]
    )


def test_a_metric_that_is_not_measured_has_no_results(run: Run) -> None:
    sim = run(f"{MAGE}\nprofileset.a+=level=79", "profileset_metric=hps").report["sim"]
    assert sim["profilesets"]["results"] == []


@pytest.mark.parametrize(
    ("option", "version"),
    [
        ("json=x", "3.0.0-alpha1"),
        ("json2=x", "2.0.0"),
        ("json=x,version=2", "2.0.0"),
        ("json=x,pretty_print=1,version=2.0.0", "2.0.0"),
        ("json=x,version=3.0.0-alpha1", "3.0.0-alpha1"),
    ],
)
def test_each_report_version_is_written(run: Run, option: str, version: str) -> None:
    result = run(MAGE, option)
    assert json.loads((result.directory / "x").read_text())["report_version"] == version
    assert result.report["report_version"] == "2.0.0"


class Elements(HTMLParser):
    """Collects tags, and attributes that load external resources."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [name for name, _ in attrs if name in {"src", "href", "srcset", "data", "action"}]


def test_hostile_names_are_escaped_in_reports(run: Run) -> None:
    profile = f'mage="{HOSTILE}"\n"profileset.{HOSTILE}"+=level=70\niterations=30\n"head={HOSTILE},ilevel=600"'
    result = run(f'{profile}\nactions="{HOSTILE}"', "html=x.html")
    player = result.report["sim"]["players"][0]
    assert (player["name"], player["gear"]["head"]["name"]) == (HOSTILE, HOSTILE)
    page = Elements()
    page.feed((result.directory / "x.html").read_text())
    assert not page.tags & {"script", "link", "img", "iframe"}
    assert page.links == []


def test_the_html_report_loads_nothing_and_names_minisim(run: Run) -> None:
    text = (run(f"{MAGE}\nprofileset.Best+=level=79", "html=x.html").directory / "x.html").read_text()
    assert "not SimulationCraft" in text
    assert "Best" in text
    assert not re.search(r"https?:|url\(|@import", text)
