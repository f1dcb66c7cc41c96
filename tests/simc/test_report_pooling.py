"""Two results of a profileset become one, with the figures that results and tables have."""

import io
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.planning.multistage import names_for, pooled
from simc.report_merge import ReportsTooLarge
from simc.report_pooling import pool
from simc.reports import BrokenReport
from tests.simc.test_report_merge import names_of, report
from tests.simc.test_reports import JSON, MAX_BYTES, load, paths_in, read, replaced

SUFFIX = "~replicate"


def entry(name: str, mean: float, *, fights: int = 100, **others: Any) -> dict[str, Any]:
    figures = {"mean": mean, "stddev": 10.0, "mean_stddev": 10 / math.sqrt(fights)}
    return {"name": name, **figures, "min": mean - 5, "max": mean + 5, **others}


def staged(*entries: dict[str, Any]) -> dict[str, Any]:
    document = report()
    document["sim"]["profilesets"]["results"] = list(entries)
    return document


def pooled_document(document: Any, *names: str, max_bytes: int = MAX_BYTES) -> Any:
    target = io.BytesIO()
    pool(io.BytesIO(json.dumps(document).encode()), target, names=names, max_bytes=max_bytes)
    return json.loads(target.getvalue())


def results_of(document: Any, *names: str) -> Any:
    return pooled_document(document, *names)["sim"]["profilesets"]["results"]


class TestFigures:
    def test_they_are_those_of_the_summary_and_the_table(self) -> None:
        raw = [entry("a", 100, fights=100), entry("b", 90), entry("a~replicate", 107, fights=260)]
        expected = pooled(read(staged(*raw)).profilesets, names_for(["a"]))
        document = staged(*({**each, "name": each["name"].removesuffix(SUFFIX)} for each in raw))
        assert read(pooled_document(document, "a")).profilesets == expected

    def test_further_figures_are_those_of_both_runs(self) -> None:
        more: dict[str, Any] = {"mean_error": 1.96, "median": 10.0, "first_quartile": 5, "third_quartile": 8.5}
        first = entry("a", 100, iterations=102, **more)
        second = entry("a", 100, fights=300, iterations=301, **{**more, "median": 14.0})
        (result,) = results_of(staged(first, second), "a")
        assert result["mean_error"] == pytest.approx(1.96 * result["mean_stddev"])
        assert (result["iterations"], result["median"]) == (403, 13)
        assert (result["first_quartile"], result["third_quartile"]) == (5, 8.5)
        assert list(result) == list(first)

    @pytest.mark.parametrize("key", ["metrics", "additional_metrics"])
    def test_every_metric_is_combined(self, key: str) -> None:
        blocks = [[{**entry("", mean), "metric": "x"}, entry("", 2 * mean)] for mean in (100, 104)]
        documents = [{**entry("a", mean), key: block} for mean, block in zip((7, 9), blocks, strict=True)]
        (result,) = results_of(staged(*documents), "a")
        assert [block["mean"] for block in result[key]] == [102, 204]
        assert (result[key][0]["metric"], result["mean"]) == ("x", 8)

    def test_lists_of_other_lengths_keep_the_rest_of_the_first(self) -> None:
        first = {**entry("a", 1), "additional_metrics": [entry("", 10), entry("", 20), 5]}
        second = {**entry("a", 3), "additional_metrics": [entry("", 30)]}
        (result,) = results_of(staged(first, second), "a")
        assert [block if block == 5 else block["mean"] for block in result["additional_metrics"]] == [20, 20, 5]

    def test_an_unknown_number_of_fights_keeps_the_first(self) -> None:
        first = {"name": "a", "mean": 5, "iterations": 7}
        assert results_of(staged(first, {**first, "mean": 6}), "a") == [first]


class TestResults:
    def test_each_name_is_once_in_the_order_of_the_report(self) -> None:
        document = staged(*(entry(name, 5) for name in "bacabcd"))
        assert names_of(pooled_document(document, "a", "b", "c")) == ["b", "a", "c", "d"]

    def test_other_profilesets_are_copied(self) -> None:
        others = [{"name": "x", "mean": 1.5, "overrides": [{"mean": 3}]}, {"name": "y~replicate", "mean": 2}]
        assert results_of(staged(others[0], entry("a", 5), others[1], entry("a", 7)), "a")[::2] == others

    @pytest.mark.parametrize(("means", "kept"), [((0, 5), 5), ((5, 0), 5), ((0, 0), 0)])
    def test_a_failed_run_is_no_result(self, means: tuple[float, float], kept: float) -> None:
        (result,) = results_of(staged(*(entry("a", mean) for mean in means)), "a")
        assert result["mean"] == kept

    def test_a_single_run_is_kept(self) -> None:
        assert results_of(staged(entry("a", 5)), "a", "b") == [entry("a", 5)]

    def test_everything_else_is_copied(self) -> None:
        document = load("single")
        assert pooled_document(document, "a") == document


class TestBrokenReports:
    @pytest.mark.parametrize("bad", ["x", 1e31, [5], {}])
    def test_figures_that_cannot_be_used_are_rejected(self, bad: object) -> None:
        with pytest.raises(BrokenReport):
            pooled_document(staged(entry("a", 1), {**entry("a", 1), "stddev": bad}), "a")

    @pytest.mark.parametrize("text", [b"", b"[]", b'{"sim":', b'{"sim":{"profilesets":{"results":[5]}}}'])
    def test_other_texts_are_rejected(self, text: bytes) -> None:
        with pytest.raises(BrokenReport):
            pool(io.BytesIO(text), io.BytesIO(), names=["a"], max_bytes=MAX_BYTES)

    def test_the_report_is_limited(self) -> None:
        document = staged(*(entry("a" * 200, 1 / 3) for _ in range(2)), *(entry(name, 1) for name in "bcd"))
        size = len(json.dumps(document, separators=(",", ":")))
        with pytest.raises((ReportsTooLarge, BrokenReport), match="larger than"):
            pooled_document(document, "a" * 200, max_bytes=size // 2)

    @given(data=st.data(), value=JSON)
    def test_any_json_is_rejected_or_gives_a_report_without_pairs(self, data: st.DataObject, value: object) -> None:
        document = staged(*({**entry("a", mean), "metrics": [entry("", mean)]} for mean in (1, 2)))
        document = replaced(document, data.draw(st.sampled_from(paths_in(document))), value)
        try:
            found = pooled_document(document, "a")
        except BrokenReport:
            return
        results = found.get("sim", {}).get("profilesets", {}).get("results", [])
        assert [each.get("name") for each in results].count("a") <= 1
