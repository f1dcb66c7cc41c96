"""Output streams of a simulator: updates, lines and logs."""

import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.streams import LineSplitter, Log
from tests.sandbox.bench import Bench


def test_updates_are_reported_and_lines_are_logged(bench: Bench) -> None:
    bench.run("progress")
    assert bench.printed() == ["version", "0/3", "1/3", "2/3", "3/3", "last words without an end"]
    assert bench.log() == "version\n3/3\nlast words without an end\n"
    assert bench.log("stderr") == "a warning\n"


def test_invalid_utf_8_is_replaced_and_long_lines_are_cut(bench: Bench) -> None:
    bench.run("noise")
    first, second, third = bench.printed()
    assert first == "\ufffd\ufffd caf\xe9"
    assert set(second) == {"x"}
    assert len(second) == 8192
    assert third == "after"


def test_log_is_cut_with_a_note(bench: Bench) -> None:
    bench.limit(log_bytes=10)
    bench.run("progress")
    assert bench.log() == "version\n[cut after 10 bytes]\n"


def test_an_error_in_a_callback_does_not_stop_reading(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    process = bench.process("progress")
    process.on_line = Mock(side_effect=ValueError)
    with process:
        assert process.wait(20)
    assert bench.log().endswith("3/3\nlast words without an end\n")
    assert len(caplog.records) == 2


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_output_can_arrive_in_any_pieces(size: int) -> None:
    updates: list[str] = []
    shown: list[str] = []
    lines = LineSplitter(on_update=updates.append, on_line=shown.append)
    data = "one\r\n\ntw\u00f6\rthree\nfour\r".encode()
    for start in range(0, len(data), size):
        lines.feed(data[start : start + size])
    lines.finish()
    assert updates == ["one", "tw\u00f6", "three", "four"]
    assert shown == ["one", "", "three", "four"]


NOTE = re.compile(r"\[the line above came (\d+) times in a row\]")


LINES = st.lists(st.sampled_from(["", "a", "x" * 60, "é" * 30, "warning: unknown option"]), max_size=200)


def logged(lines: Sequence[str], *, max_bytes: int = 1 << 20) -> str:
    """Return the log of some lines."""
    with TemporaryDirectory() as folder:
        log = Log(Path(folder, "log"), max_bytes=max_bytes)
        for line in lines:
            log.write(line)
        log.close()
        return Path(folder, "log").read_text()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["a", "b", "a"], "a\nb\na\n"),
        (["w" * 60] * 2, "w" * 60 + "\n[the line above came 2 times in a row]\n"),
        (["a", *["b"] * 1000, "c"], "a\nb\n[the line above came 1000 times in a row]\nc\n"),
        (["x", "", "", "y"], "x\n\n\ny\n"),
        ([""] * 1000, "\n[the line above came 1000 times in a row]\n"),
        ([], ""),
    ],
    ids=["no run", "two long lines", "a run between", "two empty lines", "many empty lines", "nothing"],
)
def test_equal_lines_in_a_row_are_collapsed(lines: list[str], expected: str) -> None:
    assert logged(lines) == expected


def test_an_error_after_a_flood_of_equal_lines_is_kept() -> None:
    log = logged(["w" * 99] * 10_000 + ["Error: the reason"], max_bytes=1000)
    assert log.endswith("[the line above came 10000 times in a row]\nError: the reason\n")


@pytest.mark.parametrize(
    ("max_bytes", "expected"), [(0, ""), (3, ""), (4, "abc\n"), (10, "abc\ndef\n")], ids=["0", "3", "4", "10"]
)
def test_a_log_is_cut_between_lines(max_bytes: int, expected: str) -> None:
    assert logged(["abc", "def"] * 50, max_bytes=max_bytes) == f"{expected}[cut after {max_bytes} bytes]\n"


@given(LINES)
def test_no_line_is_lost_and_no_log_grows(lines: list[str]) -> None:
    expanded: list[str] = []
    log = logged(lines)
    for line in log.split("\n")[:-1]:
        note = NOTE.fullmatch(line)
        expanded += [expanded[-1]] * (int(note[1]) - 1) if note else [line]
    assert expanded == lines
    assert len(log.encode()) <= sum(len(f"{line}\n".encode()) for line in lines)
