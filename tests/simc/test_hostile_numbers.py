"""Every number of a report, replaced by a hostile one: the report is rejected, or all its figures are possible."""

import copy
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from simc.report_reader import read_report
from simc.reports import BrokenReport, Report, summarise
from tests.simc.test_reports import MAX_BYTES, SINGLE_PASS, load

HOSTILE = (
    "-1.0",
    "-0.0",
    "1e-321",
    "-1e-321",
    "1e30",
    "-1e30",
    "1e308",
    "-1e308",
    "1e999",
    "9" * 400,
    "-7",
    "true",
)
MARK = "0.123456789"
ERRORS = ("mean_error", "mean_stddev", "stddev")


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each number."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(each, (*path, key))
    elif type(value) in (int, float):
        yield path


def texts(document: Any) -> Iterator[tuple[str, str]]:
    """Yield the text of a report for each number and each hostile replacement, with a description."""
    for path in paths(document):
        changed = copy.deepcopy(document)
        parent = changed
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = float(MARK)
        text = json.dumps(changed)
        for number in HOSTILE:
            yield f"{path} = {number[:20]}", text.replace(MARK, number)


def read(text: str) -> Report | None:
    try:
        return read_report(io.BytesIO(text.encode()), max_bytes=MAX_BYTES, with_details=True)
    except BrokenReport:
        return None


def entries(summary: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of a summary that have figures."""
    if isinstance(summary, dict):
        if "mean_error" in summary:
            yield summary
        summary = list(summary.values())
    if isinstance(summary, list):
        for each in summary:
            yield from entries(each)


def with_abilities() -> Any:
    """Return a report whose player has an ability."""
    document = load("single")
    document["sim"]["players"][0]["stats"] = [
        {
            "name": "fireball",
            "id": 133,
            "type": "damage",
            "compound_amount": 1e6,
            "num_executes": {"mean": 20.0},
            "portion_aps": {"mean": 5000.0},
            "actual_amount": {"mean": 1e6},
            "direct_results": {"hit": {"count": {"mean": 5.0}, "actual_amount": {"mean": 1e5}}},
        }
    ]
    return document


@pytest.mark.parametrize("name", ["single", "profilesets", "abilities"])
def test_hostile_numbers_never_reach_a_result(name: str) -> None:
    used = 0
    for description, text in texts(with_abilities() if name == "abilities" else load(name)):
        report = read(text)
        if report is None:
            continue
        used += 1
        assert report.iterations >= 0, description
        summary = summarise(report, metric="dps", multistage=SINGLE_PASS, partial=False)
        json.dumps([summary, report.details], allow_nan=False)
        for entry in entries(summary):
            assert all(0 <= entry[figure] <= 1e31 for figure in ERRORS), description
    assert used > 100


def test_a_negative_error_is_left_out_with_a_remark() -> None:
    document = load("single")
    document["sim"]["players"][0]["collected_data"]["dps"]["mean_std_dev"] = -1.0
    report = read(json.dumps(document))
    assert report is not None
    assert report.players[0].dps.mean_stddev == 0
    assert report.warnings[-1] == "The report contains negative errors or counts. They were left out."
