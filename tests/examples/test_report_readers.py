"""The example readers of report data, on the results of real jobs of each kind.

The formulas of `sheet.tsv` are evaluated here, with the meaning that Google Sheets gives to IMPORTDATA, INDEX,
MATCH and MAX: the spreadsheet itself would need an account.
"""

import csv
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from jobs.models import Artifact, Build, Job
from tests.jobs.shards.sharded_runs import conducted
from tests.jobs.simulators import run
from tests.stack import ROOT
from tests.web_server import web_server

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(240)]

FOLDER = ROOT / "examples" / "readers"
ONE = 'mage="Frosty"\nlevel=80\niterations=50\n'
SEVERAL = f'{ONE}mage="Second"\nlevel=80\nmage="Third"\nlevel=80\n'
SETS = "".join(f'profileset."Ring {number}"+=finger1=,id=1,ilevel={550 + 20 * number}\n' for number in range(1, 7))
LONG = ONE.replace("iterations=50", "iterations=3000") + "".join(
    f'profileset."Ring {number}"+=finger1=,id=1,ilevel={600 + number}\n' for number in range(1, 25)
)
STOPPED = ONE.replace("iterations=50", "iterations=30000000")


@dataclass(frozen=True)
class Case:
    """How a job runs, and what a reader must find: the type, the actors and the profilesets."""

    text: str
    sim_type: str
    actors: int = 1
    profilesets: int = 0
    status: str = "completed"

    def run(self, name: str) -> Job:
        match name:
            case "stages":
                return run(text=self.text, csv=True, html=True, multi_stage=True)
            case "shards":
                return conducted(helpers=1, text=self.text, csv=True)
            case "stopped":
                return run(text=self.text, csv=True, ceiling_runtime_seconds=3, ceiling_credits=96)
        return run(text=self.text, csv=True)


CASES = {
    "one actor": Case(ONE, "quick"),
    "several actors": Case(SEVERAL, "advanced", actors=3),
    "profilesets": Case(ONE + SETS, "advanced", profilesets=6),
    "stages": Case(ONE.replace("iterations=50\n", "") + SETS, "multistage", profilesets=6),
    "shards": Case(LONG, "advanced", profilesets=24),
    "stopped": Case(STOPPED, "quick", status="timed_out"),
}


@dataclass(frozen=True)
class Report:
    """A job that has ended, its share link, and what `data.json` contains."""

    case: Case
    link: str
    data: Any
    # How many profilesets the report has: those of the last stage, if no report of the whole job is stored
    profilesets: int

    @property
    def best(self) -> str:
        results = self.data["sim"].get("profilesets", {}).get("results", [])
        return max(results, key=lambda each: each["mean"])["name"] if results else ""


@pytest.fixture(params=CASES)
def report(request: pytest.FixtureRequest, minisim: Build, tmp_path: Path) -> Iterator[Report]:
    """A job of each kind, which has ended, and a web server."""
    case = CASES[request.param]
    job = case.run(request.param)
    assert (job.status, job.is_partial) == (case.status, case.status != "completed"), job.status_reason
    assert request.param != "shards" or job.runs.filter(shard__gt=0).exists()
    reports = Artifact.objects.filter(job=job, kind=Artifact.Kind.JSON_REPORT)
    with web_server(tmp_path / "web.log") as web:
        link = f"http://127.0.0.1:{web.port}/share/{job.share_token}"
        data = requests.get(f"{link}/data.json", timeout=30).json()
        is_whole = reports.filter(stage=None).exists()
        listed = case.profilesets if is_whole else len(data["sim"]["profilesets"]["results"])
        yield Report(case, link, data, listed)


def output_of(*command: str | Path) -> str:
    """Run a program and return what it prints."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readers_work_on_every_kind_of_job(report: Report, tmp_path: Path) -> None:
    assert_document(report)
    ranking = output_of(sys.executable, FOLDER / "ranking.py", report.link).splitlines()
    assert len(ranking) == 1 + (report.profilesets or report.case.actors)
    assert report.case.sim_type in ranking[0]
    assert ranking[1].endswith(report.best)
    sheet = tmp_path / "loot.csv"
    loot = (sys.executable, FOLDER / "loot_sheet.py", sheet, report.link)
    output_of(*loot)
    first = next(csv.DictReader(sheet.read_text().splitlines()))
    assert (first["player"], first["set"]) == ("Frosty", report.best)
    assert "unchanged" in output_of(*loot)
    message = output_of("node", FOLDER / "guild_bot.mjs", report.link)
    assert (f"Best of {report.profilesets}: {report.best} (" in message) == bool(report.profilesets)
    assert ("stopped early" in message) == (report.case.status != "completed")
    assert_widget(report)
    assert_sheet(report)


def assert_document(report: Report) -> None:
    sim, simbot = report.data["sim"], report.data["simbot"]
    assert (simbot["simType"], len(sim["players"])) == (report.case.sim_type, report.case.actors)
    assert sim["players"][0]["collected_data"]["dps"]["mean"] > 0
    names = [each["name"] for each in sim.get("profilesets", {}).get("results", [])]
    assert len(names) == report.profilesets
    assert simbot["input"] == report.case.text == requests.get(f"{report.link}/input.txt", timeout=30).text
    assert report.data["version"]
    assert requests.get(f"{report.link}/output.txt", timeout=30).status_code == 200


def assert_widget(report: Report) -> None:
    """Read the report twice as the page does: the second time, it has not changed."""
    script = f"""
        import {{ describe, read }} from {json.dumps(str(FOLDER / "widget.mjs"))};
        const first = await read({json.dumps(report.link)});
        console.log(describe(first.report));
        console.log(await read({json.dumps(report.link)}, first.tag));
    """
    line, again = output_of("node", "--input-type=module", "--eval", script).splitlines()
    assert report.data["simbot"]["title"] in line
    assert line.endswith(report.best)
    assert again == "null"


def assert_sheet(report: Report) -> None:
    sheet = Sheet.opened(report.link)
    if not report.profilesets:
        assert sheet.value("B4") == max(
            each["collected_data"]["dps"]["mean"] for each in report.data["sim"]["players"]
        ) or sheet.value("B4") == pytest.approx(sheet.value("B2"), rel=0.5)
        return
    assert sheet.value("B3") == report.best
    baseline = report.data["sim"]["players"][0]["collected_data"]["dps"]["mean"]
    assert sheet.value("B2") == pytest.approx(baseline, rel=1e-3)
    assert sheet.value("B5") == pytest.approx(sheet.value("B4") / sheet.value("B2") - 1)


class Sheet:
    """The cells of `sheet.tsv`, whose formulas are evaluated."""

    def __init__(self, cells: dict[str, Any]) -> None:
        self.cells = cells

    @classmethod
    def opened(cls, link: str) -> "Sheet":
        """Return the sheet with a link in B1 and the table that IMPORTDATA fetches."""
        rows = list(csv.reader((FOLDER / "sheet.tsv").read_text().splitlines(), delimiter="\t"))
        cells = {
            f"{'AB'[column]}{number}": text for number, row in enumerate(rows, 1) for column, text in enumerate(row)
        }
        cells["B1"] = link
        (place,) = [name for name, text in cells.items() if text.startswith("=IMPORTDATA")]
        assert cells[place] == '=IMPORTDATA(B1&"/data.csv")'
        response = requests.get(f"{link}/data.csv", timeout=30)
        response.raise_for_status()
        for number, row in enumerate(csv.reader(response.text.splitlines()), int(place[1:])):
            cells |= {f"A{number}": row[0], f"B{number}": number_of(row[1])}
        return cls(cells)

    def column(self, text: str) -> list[Any]:
        """Return the cells of an open range such as `B9:B`."""
        letter, first = text[0], int(text[1 : text.index(":")])
        numbers = [int(name[1:]) for name in self.cells if name[0] == letter and int(name[1:]) >= first]
        return [self.cells[f"{letter}{number}"] for number in sorted(numbers)]

    def value(self, cell: str) -> Any:
        """Return the value of a cell."""
        formula = str(self.cells[cell])
        python = re.sub(r"[AB]\d+:[AB]", lambda match: f"column({match.group()!r})", formula.removeprefix("="))
        functions = {
            "column": self.column,
            "INDEX": lambda values, number: values[number - 1],
            "MATCH": lambda value, values, _: values.index(value) + 1,
            "MAX": max,
        }
        return eval(python, {"__builtins__": {}}, functions)  # noqa: S307 - the formulas of this repository


def number_of(text: str) -> Any:
    """Return a cell as a spreadsheet reads it."""
    return float(text) if re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", text) else text


def test_names_in_a_loot_sheet_are_no_formulas() -> None:
    rows_of = runpy.run_path(str(FOLDER / "loot_sheet.py"))["rows_of"]
    results = [
        {"name": "=HYPERLINK(1)", "mean": 3},
        {"name": " \n@x\ny", "mean": 2},
        {"name": "Ring B", "mean": 1.6},
    ]
    player: dict[str, Any] = {"name": "+Frosty", "collected_data": {"dps": {"mean": 1}}}
    report = {"sim": {"players": [player], "profilesets": {"results": results}}, "simbot": {"date": 0}}
    assert [row[1:] for row in rows_of("link", report)] == [
        ["'+Frosty", "1970-01-01", "'=HYPERLINK(1)", 2],
        ["'+Frosty", "1970-01-01", "'@x y", 1],
        ["'+Frosty", "1970-01-01", "Ring B", 1],
    ]
    # The simulator leaves out what it has not measured.
    del player["collected_data"]["dps"]
    assert [row[3:] for row in rows_of("link", report)] == [["", 0]]


def test_a_ranking_without_a_baseline() -> None:
    entries_of = runpy.run_path(str(FOLDER / "ranking.py"))["entries_of"]
    players = [{"name": "A", "collected_data": {}}, {"name": "B", "collected_data": {"dps": {"mean": 5}}}]
    assert entries_of({"sim": {"players": players}}) == [("B", 5, 0), ("A", 0, 0)]
