"""One report of all stages, with each profileset once."""

import io
import json
from collections.abc import Iterable
from contextlib import closing
from typing import Any

import pytest

from simc.report_merge import ReportsTooLarge
from simc.reports import BrokenReport
from simc.stage_reports import StageReports
from tests.simc.test_report_merge import names_of, report, without_profilesets
from tests.simc.test_reports import MAX_BYTES, load


def written(
    *stages: tuple[Any, str | list[str]], base: int, order: Iterable[str], max_bytes: int = MAX_BYTES
) -> Any:
    """Return the report of stages, each of which is a report and the names of results to take from it."""
    target = io.BytesIO()
    with closing(StageReports(max_bytes=max_bytes)) as reports:
        for number, (document, names) in enumerate(stages, start=1):
            stream = io.BytesIO(json.dumps(document).encode())
            reports.add(stream, names=set(names), is_base=number <= base)
        reports.write(target, order=order)
    return json.loads(target.getvalue())


def stage(number: int, names: str, **changes: Any) -> dict[str, Any]:
    document = report(*names, **changes)
    document["version"] = str(number)
    for result in document["sim"]["profilesets"]["results"]:
        result["mean"] = number
    return document


def means_of(document: Any) -> dict[str, float]:
    return {each["name"]: each["mean"] for each in document["sim"]["profilesets"]["results"]}


def test_each_result_is_that_of_the_wanted_stage() -> None:
    found = written((stage(1, "abcd"), "abcd"), (stage(2, "abc"), "ac"), (stage(3, "c"), "c"), base=3, order="cbad")
    assert list(means_of(found).items()) == [("c", 3), ("b", 1), ("a", 2), ("d", 1)]
    assert found["version"] == "3"


def test_all_but_the_results_is_that_of_the_base() -> None:
    stages = [stage(number, "a", statistics={"elapsed_time_seconds": number}) for number in (1, 2)]
    for base in (1, 2):
        found = written((stages[0], "a"), (stages[1], "a"), base=base, order="a")
        assert means_of(found) == {"a": 2}
        found["sim"]["profilesets"] = stages[base - 1]["sim"]["profilesets"]
        assert found == stages[base - 1]


def test_a_base_without_profilesets_gets_the_block_of_another_stage() -> None:
    found = written((stage(1, "ab"), "ab"), (without_profilesets(), ""), base=2, order="ba")
    assert found["sim"]["profilesets"]["metric"] == "DPS"
    assert names_of(found) == ["b", "a"]


@pytest.mark.parametrize("name", ["profilesets", "metrics_list"])
def test_both_layouts_are_copied(name: str) -> None:
    document = load(name)
    names = names_of(document)
    assert written((document, names), base=1, order=names) == document


def test_names_that_no_stage_has_are_left_out() -> None:
    assert names_of(written((stage(1, "ab"), "ab"), base=1, order="xbya")) == ["b", "a"]


def test_a_job_without_results_has_an_empty_list() -> None:
    assert names_of(written((stage(1, ""), ""), base=1, order="")) == []


def test_names_are_those_of_the_results() -> None:
    # Results have names that the database can store.
    found = written((report("a\x00"), ["a\ufffd"]), base=1, order=["a\ufffd"])
    assert names_of(found) == ["a\x00"]


def test_a_report_without_a_base_cannot_be_written() -> None:
    with pytest.raises(BrokenReport, match="no stage has a report"):
        written((stage(1, "a"), "a"), base=0, order="a")


def test_a_broken_report_is_rejected() -> None:
    with pytest.raises(BrokenReport, match="its sim is not an object"):
        written(({"sim": 5}, "a"), base=1, order="a")


def test_the_report_is_limited() -> None:
    stages = [(report(*(f"{number}{name}" * 40 for name in "abcd")), number) for number in "12"]
    named = [(document, names_of(document)) for document, _ in stages]
    size = max(len(json.dumps(document)) for document, _ in named)
    order = [name for _, names in named for name in names]
    with pytest.raises(ReportsTooLarge, match=f"larger than {size} bytes"):
        written(*named, base=1, order=order, max_bytes=size)
    assert len(names_of(written(*named, base=1, order=order, max_bytes=2 * size))) == 8
