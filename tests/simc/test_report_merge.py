import copy
import io
import json
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simc.report_merge import SUMMED, BrokenShardReport, ReportsTooLarge, Writer, merge
from simc.report_reader import read_report
from simc.reports import BrokenReport, Profileset, Report, Statistics, merged_report, wrong_iterations
from tests.simc.test_reports import FIXTURES, JSON, MAX_BYTES, load, paths_in, read, replaced

PLAYERS = [{"name": "Base", "collected_data": {"dps": {"mean": 5.5, "count": 1}}}]


def merged_text(base: bytes, *others: bytes, max_bytes: int = MAX_BYTES) -> bytes:
    target = io.BytesIO()
    openers: list[Callable[[], BinaryIO]] = [partial(io.BytesIO, other) for other in others]
    merge(io.BytesIO(base), openers, target, max_bytes=max_bytes)
    return target.getvalue()


def merged(base: object, *others: object) -> Any:
    return exact(merged_text(*(json.dumps(document).encode() for document in (base, *others))))


def exact(text: bytes) -> Any:
    return json.loads(text, parse_float=Decimal)


def report(*names: str, **changes: Any) -> dict[str, Any]:
    entries = [{"name": name, "mean": 1.5, "iterations": 100, "overrides": []} for name in names]
    sim = {"players": PLAYERS, "profilesets": {"metric": "DPS", "results": entries}, "statistics": {}}
    return {"version": "1", "sim": {**sim, **changes}}


def without_profilesets(**changes: Any) -> dict[str, Any]:
    document = report(**changes)
    del document["sim"]["profilesets"]
    return document


def names_of(document: Any) -> list[str]:
    return [entry["name"] for entry in document["sim"]["profilesets"]["results"]]


def is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool) and -(10**30) <= value <= 10**30


def reference(base: Any, others: list[Any]) -> Any:
    """Merge documents in memory."""
    merged = copy.deepcopy(base)
    blocks = [other["sim"]["profilesets"] for other in others if "profilesets" in other["sim"]]
    entries: dict[str, Any] = {}
    for entry in (entry for block in blocks for entry in block.get("results", [])):
        entries.setdefault(entry["name"], entry)
    if "profilesets" not in merged["sim"] and blocks:
        merged["sim"]["profilesets"] = {key: value for key, value in blocks[0].items() if key != "results"}
    if "profilesets" in merged["sim"]:
        merged["sim"]["profilesets"]["results"] = list(entries.values())
    statistics = merged["sim"].get("statistics", {})
    for key in set(SUMMED).intersection(statistics):
        for other in others:
            added = other["sim"].get("statistics", {}).get(key)
            if is_number(statistics[key]) and is_number(added):
                statistics[key] += added
    return merged


class TestResults:
    def test_results_come_from_the_others_in_order(self) -> None:
        assert names_of(merged(report("a", "b"), report("b"), report("c", "a"))) == ["b", "c", "a"]

    def test_results_of_the_base_alone_are_dropped(self) -> None:
        assert names_of(merged(report("a", "b"), report("b"))) == ["b"]
        assert names_of(merged(report("a", "b"))) == []

    def test_the_first_of_equal_names_is_kept(self) -> None:
        first, second = report("a", "b", "a"), report("b", "c")
        second["sim"]["profilesets"]["results"][0]["mean"] = 99
        results = merged(report(), first, second)["sim"]["profilesets"]["results"]
        assert [(entry["name"], entry["mean"]) for entry in results] == [(name, Decimal("1.5")) for name in "abc"]

    def test_a_repeated_name_at_the_end_is_removed(self) -> None:
        assert names_of(merged(report(), report("a", "a"))) == ["a"]
        assert names_of(merged(report(), report("a"), report("a" * 99_999, "a", "a" * 99_999))) == [
            "a",
            "a" * 99_999,
        ]

    @pytest.mark.parametrize("base", ["profilesets", "metrics_list", "year_2020"])
    @pytest.mark.parametrize("other", ["profilesets", "metrics_list"])
    def test_entries_of_both_layouts_are_copied(self, base: str, other: str) -> None:
        documents = [exact((FIXTURES / f"{name}.json").read_bytes()) for name in (base, other)]
        assert merged(load(base), load(other)) == reference(documents[0], documents[1:])

    def test_a_merged_report_reads_like_its_parts(self) -> None:
        documents = [load("profilesets"), load("metrics_list"), load("profilesets")]
        text = merged_text(*(json.dumps(document).encode() for document in documents))
        first, *others = map(read, documents)
        assert read(text) == merged_report(first, others)

    def test_numbers_keep_their_digits(self) -> None:
        numbers = b"1.50,-0.0,1E+400,1.25e+2,123456789012345678901234567890.5,18446744073709551615"
        text = b'{"sim":{"x":[%s],"profilesets":{"results":[{"name":"a","x":[%s]}]}}}' % (numbers, numbers)
        assert merged_text(text, text) == text

    @pytest.mark.parametrize("name", ['"\\', "\x00", "\u2028\x7f", "\U0001f525", "</script>", ""])
    def test_hostile_names_are_copied(self, name: str) -> None:
        assert names_of(merged(report(), report(name, name + "2"))) == [name, name + "2"]

    def test_a_lone_surrogate_is_replaced(self) -> None:
        # Both the parser and the reader do that.
        assert names_of(merged(report(), report("a\ud800"))) == ["a?"]

    def test_an_invalid_byte_is_replaced(self) -> None:
        text = json.dumps(report("a?")).encode().replace(b"a?", b"a\xff")
        assert names_of(exact(merged_text(text, text))) == ["a\ufffd"]

    def test_repeated_keys_elsewhere_are_copied(self) -> None:
        text = b'{"x":1,"x":2,"sim":{"profilesets":{"results":[{"name":"a","x":1,"x":2}]}},"x":3}'
        assert merged_text(text, text) == text


class TestProfilesetsBlock:
    def test_a_base_without_a_block_gets_the_first_one(self) -> None:
        other = report("b")
        other["sim"]["profilesets"] = {"results": [], "metric": "HPS", "x": {"y": [None]}}
        sim = merged(without_profilesets(), without_profilesets(), other, report("c"))["sim"]
        assert list(sim) == ["players", "statistics", "profilesets"]
        assert list(sim["profilesets"].items())[:2] == [("metric", "HPS"), ("x", {"y": [None]})]
        assert [entry["name"] for entry in sim["profilesets"]["results"]] == ["c"]

    def test_without_any_block_there_is_none(self) -> None:
        assert merged(without_profilesets(), without_profilesets()) == without_profilesets()

    def test_a_block_keeps_its_own_keys(self) -> None:
        base = report("a")
        base["sim"]["profilesets"]["metric"] = "raid"
        assert merged(base, report("a"))["sim"]["profilesets"]["metric"] == "raid"

    def test_a_block_without_results_gets_them(self) -> None:
        base = report()
        base["sim"]["profilesets"] = {"metric": "DPS"}
        assert names_of(merged(base, report("a"))) == ["a"]


class TestStatistics:
    @pytest.mark.parametrize("key", SUMMED)
    def test_times_and_events_are_summed_exactly(self, key: str) -> None:
        parts = [report(statistics={key: value, "simulation_length": 3}) for value in (0.1, 0.2, 3)]
        expected = {key: Decimal("3.3"), "simulation_length": 3}
        assert merged(*parts)["sim"]["statistics"] == expected

    @pytest.mark.parametrize("value", [None, "5", True, [7], {"x": 7}])
    def test_other_values_are_not_summed(self, value: object) -> None:
        odd, plain = (report(statistics={SUMMED[0]: number}) for number in (value, 2))
        assert merged(odd, plain)["sim"]["statistics"] == {SUMMED[0]: value}
        assert merged(plain, odd, plain)["sim"]["statistics"] == {SUMMED[0]: 4}

    @pytest.mark.parametrize("value", ["1e31", "-1e31", "1e999999", "-1e9999999999", "1e-9999999999"])
    def test_huge_and_tiny_numbers_do_no_harm(self, value: str) -> None:
        huge, plain = (f'{{"sim":{{"statistics":{{"{SUMMED[0]}":{n}}}}}}}'.encode() for n in (value, 2))
        assert exact(merged_text(huge, plain))["sim"]["statistics"][SUMMED[0]] in {Decimal(value), 2}
        assert exact(merged_text(plain, huge, plain))["sim"]["statistics"][SUMMED[0]] == 4

    def test_only_times_of_the_base_are_summed(self) -> None:
        parts = report(statistics={SUMMED[0]: 1}), report(statistics={SUMMED[1]: 2})
        assert merged(*parts)["sim"]["statistics"] == {SUMMED[0]: 1}


GOOD = json.dumps(report("a")).encode()
BROKEN = [
    (b"", "empty"),
    (b" ", "not valid JSON"),
    (b"<html>", "not valid JSON"),
    (b"[]", "not an object"),
    (b"{}", "has no sim"),
    (GOOD[:-30], "truncated"),
    (GOOD + b"}", "not valid JSON"),
    (GOOD + b" " * 100_000 + b"}", "not valid JSON"),
    (b'{"sim": [1]}', "its sim is not an object"),
    (b'{"sim": {"profilesets": []}}', "its profilesets is not an object"),
    (b'{"sim": {"profilesets": null}}', "its profilesets is not an object"),
    (b'{"sim": {"profilesets": {"results": {}}}}', "its results is not a list of objects"),
    (b'{"sim": {"profilesets": {"results": null}}}', "its results is not a list of objects"),
    (b'{"sim": {"statistics": 5}}', "its statistics is not an object"),
    (b'{"sim": {}, "sim": {}}', "it contains its sim twice"),
    (b'{"sim": {"profilesets": {}, "profilesets": {}}}', "it contains its profilesets twice"),
    (b'{"sim": {"profilesets": {"results": [], "results": []}}}', "it contains its results twice"),
    (b'{"sim": {"statistics": {}, "statistics": {}}}', "it contains its statistics twice"),
    (b'{"sim": {"statistics": {"elapsed_cpu_seconds": 1, "elapsed_cpu_seconds": 1}}}', "elapsed_cpu_seconds twice"),
    (b'{"sim": NaN}', "not valid JSON"),
    (b'{"x": ' + b"[" * 2_000, "nested too deeply"),
    (b'{"sim": {"profilesets": {"x": ' + b'{"x":' * 2_000, "nested too deeply"),
    (b'{"sim": {"profilesets": {"results": [{"name": "a", "x": ' + b"[" * 2_000, "nested too deeply"),
    (b'{"x": [' + b"[]," * 200_000, "too many values"),
    (b'{"x": ' + b"9" * 5000 + b"}", "too many digits"),
    (b'{"x": 1e99999999999999999999}', "too many digits"),
]  # fmt: skip
BROKEN_RESULTS = [
    (b"[1]", "its results is not a list of objects"),
    (b"[[]]", "its results is not a list of objects"),
    (b"[{}]", "its name is not a string"),
    (b'[{"name": 5}]', "its name is not a string"),
    (b'[{"name": {"x": "a"}}]', "its name is not a string"),
    (b'[{"name": "a", "name": "b"}]', "it contains its name twice"),
]


def short(value: object) -> str:
    return str(value)[:40]


class TestBrokenReports:
    @pytest.mark.parametrize(("text", "reason"), BROKEN, ids=short)
    def test_a_broken_base_is_rejected(self, text: bytes, reason: str) -> None:
        with pytest.raises(BrokenReport, match=reason) as caught:
            merged_text(text, GOOD)
        assert type(caught.value) is BrokenReport

    @pytest.mark.parametrize(("text", "reason"), BROKEN, ids=short)
    def test_a_broken_shard_is_named(self, text: bytes, reason: str) -> None:
        with pytest.raises(BrokenShardReport, match=reason) as caught:
            merged_text(GOOD, GOOD, GOOD, text, GOOD)
        assert caught.value.index == 2

    @pytest.mark.parametrize(("results", "reason"), BROKEN_RESULTS, ids=short)
    def test_broken_results_of_a_shard_are_rejected(self, results: bytes, reason: str) -> None:
        with pytest.raises(BrokenShardReport, match=reason) as caught:
            merged_text(GOOD, b'{"sim": {"profilesets": {"results": %s}}}' % results)
        assert caught.value.index == 0

    def test_each_report_is_opened_after_the_one_before_was_closed(self) -> None:
        opened: list[io.BytesIO] = []

        def open_report(text: bytes) -> BinaryIO:
            assert all(stream.closed for stream in opened)
            opened.append(io.BytesIO(text))
            return opened[-1]

        with pytest.raises(BrokenShardReport):
            merge(
                io.BytesIO(GOOD), [partial(open_report, text) for text in (GOOD, b"x")], io.BytesIO(), max_bytes=999
            )
        assert len(opened) == 2
        assert all(stream.closed for stream in opened)

    def test_each_report_is_limited(self) -> None:
        text, larger = (json.dumps(report(name, x="y" * size)).encode() for name, size in (("a", 900), ("b", 1000)))
        assert merged_text(text, text, larger, max_bytes=len(larger))
        with pytest.raises(BrokenShardReport, match="larger than") as caught:
            merged_text(text, text, larger, max_bytes=len(larger) - 1)
        assert caught.value.index == 1

    def test_what_is_not_merged_does_not_count(self) -> None:
        texts = [json.dumps(report(name, x="y" * 1000)).encode() for name in "abcdef"]
        assert merged_text(*texts, max_bytes=max(map(len, texts)) + 500)

    def test_the_merged_report_is_limited(self) -> None:
        texts = [json.dumps(report(f"{name}{'x' * 400}")).encode() for name in "abcdef"]
        size = len(merged_text(*texts))
        assert max(map(len, texts)) < size - 1
        with pytest.raises(ReportsTooLarge, match=f"larger than {size - 1} bytes"):
            merged_text(*texts, max_bytes=size - 1)

    @pytest.mark.parametrize(
        ("limit", "reason"), [("MAX_ENTRIES", "more than 3 results"), ("MAX_NAME_CHARACTERS", "too long")]
    )
    def test_names_are_limited(self, limit: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(f"simc.report_merge.{limit}", 3)
        assert merged(report(), report("a", "b"), report("b", "c"))
        with pytest.raises(ReportsTooLarge, match=reason):
            merged(report(), report("a", "b"), report("c", "d"))


KEYS = st.sampled_from(["x", "name", "sim", "results", "metric", *SUMMED]) | st.text(max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(KEYS, children, max_size=3),
    max_leaves=4,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=3)
ENTRIES = st.lists(st.builds(lambda name, rest: {**rest, "name": name}, st.text(max_size=1), OBJECTS), max_size=4)


@st.composite
def reports(draw: st.DrawFn) -> dict[str, Any]:
    sim = draw(OBJECTS)
    if draw(st.booleans()):
        sim["profilesets"] = {**draw(OBJECTS), "results": draw(ENTRIES)}
    if draw(st.booleans()):
        sim["statistics"] = draw(st.dictionaries(KEYS, st.integers(-(2**40), 2**40) | VALUES, max_size=5))
    members = draw(st.permutations(list(sim.items())))
    return {**draw(OBJECTS), "sim": dict(members), **draw(st.dictionaries(st.just("y"), VALUES))}


@pytest.mark.slow
@given(base=reports(), others=st.lists(reports(), max_size=4))
def test_merging_equals_the_reference(base: dict[str, Any], others: list[dict[str, Any]]) -> None:
    documents = [exact(json.dumps(document).encode()) for document in (base, *others)]
    # The text also compares types, digits and the order of keys.
    assert repr(merged(base, *others)) == repr(reference(documents[0], documents[1:]))


@pytest.mark.parametrize("name", ["profilesets", "metrics_list"])
@given(data=st.data(), value=JSON, place=st.sampled_from([0, 1]))
def test_any_json_is_rejected_or_gives_a_valid_report(
    name: str, data: st.DataObject, value: object, place: int
) -> None:
    documents = [load(name), load(name)]
    error = BrokenShardReport if place else BrokenReport
    chosen_path = data.draw(st.sampled_from(paths_in(documents[place])))
    documents[place] = replaced(documents[place], chosen_path, value)
    try:
        text = merged_text(*(json.dumps(document).encode() for document in documents))
    except error:
        return
    assert json.loads(text)["sim"]["profilesets"]


@given(base=st.binary(), other=st.binary())
def test_any_bytes_are_rejected(base: bytes, other: bytes) -> None:
    with pytest.raises(BrokenShardReport):
        merged_text(base, other)


def test_a_file_can_be_the_target(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    with target.open("wb") as file:
        merge(io.BytesIO(GOOD), [partial(io.BytesIO, GOOD)], file, max_bytes=MAX_BYTES)
    with target.open("rb") as file:
        assert [entry.name for entry in read_report(file, max_bytes=MAX_BYTES).profilesets] == ["a"]


def test_a_writer_forgets_what_is_removed() -> None:
    writer = Writer(io.BytesIO(), max_bytes=10**6, too_large=ValueError())
    mark = writer.mark()
    writer.copy(("string", "long text"), iter(()))
    writer.rewind(mark)
    writer.copy(("null", None), iter(()))
    assert writer.file.getvalue() == b"null"  # type: ignore[attr-defined]


def with_counts(*counts: int | None, name: str = "set") -> Report:
    figures = Statistics(1, 1, 1, 1, 1)
    sets = tuple(Profileset(name, figures, 1, count) for count in counts)
    return Report(players=(), profilesets=sets, raid_dps=figures, iterations=1, errors=())


class TestIterations:
    @pytest.mark.parametrize(
        "entry", [{"mean": 2, "iterations": 1502}, {"metrics": [{"mean": 2, "iterations": 1502}]}]
    )
    def test_both_layouts_have_the_number_of_iterations(self, entry: dict[str, Any]) -> None:
        document = report()
        document["sim"]["profilesets"]["results"] = [{"name": "a", **entry}]
        assert [profileset.iterations for profileset in read(document).profilesets] == [1502]

    def test_the_number_may_be_absent(self) -> None:
        assert {profileset.iterations for profileset in read(load("metrics_list")).profilesets} == {None}

    def test_an_invalid_number_is_rejected(self) -> None:
        document = report("a")
        document["sim"]["profilesets"]["results"][0]["iterations"] = "5"
        with pytest.raises(BrokenReport, match="iterations"):
            read(document)

    @pytest.mark.parametrize(
        ("count", "target_error"), [(96, 0), (100, 0), (104, 0), (2, 0.1), (50, 0.1), (200, 0.1), (None, 0)]
    )
    def test_right_numbers_are_accepted(self, count: int | None, target_error: float) -> None:
        found = wrong_iterations(with_counts(100, count), expected=100, target_error=target_error, threads=4)
        assert found is None

    @pytest.mark.parametrize(("count", "target_error"), [(1, 0), (95, 0), (105, 0), (1, 0.1), (-5, 0.1)])
    def test_wrong_numbers_are_found(self, count: int, target_error: float) -> None:
        found = wrong_iterations(with_counts(100, count), expected=100, target_error=target_error, threads=4)
        assert found == f"its profileset 'set' ran {count} iterations, not 100"

    def test_a_single_iteration_is_right_if_it_is_the_maximum(self) -> None:
        assert wrong_iterations(with_counts(1), expected=1, target_error=0.1, threads=4) is None
        assert wrong_iterations(with_counts(0), expected=1, target_error=0.1, threads=4)

    def test_long_names_are_cut(self) -> None:
        found = wrong_iterations(with_counts(1, name="n" * 999), expected=100, target_error=0, threads=4)
        assert found
        assert found.count("n" * 100) == 1
        assert len(found) < 200


class TestMergedReports:
    def test_messages_are_distinct_and_limited(self) -> None:
        first, other = read(load("single")), read({**load("single"), "logs": []})
        many = merged_report(
            first, [first, other, Report(**{**fields(other), "errors": tuple(map(str, range(99)))})]
        )
        assert many.errors[:2] == (*first.errors, "0")
        assert len(many.errors) == 20
        assert many.warnings == first.warnings

    def test_the_first_of_equal_names_is_kept(self) -> None:
        reports = [with_counts(count) for count in (1, 5, 7)]
        assert [profileset.iterations for profileset in merged_report(reports[0], reports[1:]).profilesets] == [5]


def fields(report: Report) -> dict[str, Any]:
    return {name: getattr(report, name) for name in report.__slots__}
