"""Logs: short, whole where they can be, and truthful about what was left out."""

import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.simulator.streams import Log

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
def test_runs_of_equal_lines_are_collapsed(lines: list[str], expected: str) -> None:
    assert logged(lines) == expected


def test_an_error_after_a_flood_of_equal_lines_is_kept() -> None:
    log = logged(["w" * 99] * 10_000 + ["Error: the reason"], max_bytes=1000)
    assert log.endswith("[the line above came 10000 times in a row]\nError: the reason\n")


@pytest.mark.parametrize(
    ("max_bytes", "kept"), [(0, ""), (3, ""), (4, "abc\n"), (10, "abc\ndef\n")], ids=["0", "3", "4", "10"]
)
def test_a_log_is_cut_between_lines(max_bytes: int, kept: str) -> None:
    assert logged(["abc", "def"] * 50, max_bytes=max_bytes) == f"{kept}[cut after {max_bytes} bytes]\n"


@given(LINES)
def test_nothing_is_lost_and_nothing_grows(lines: list[str]) -> None:
    told: list[str] = []
    log = logged(lines)
    for line in log.split("\n")[:-1]:
        note = NOTE.fullmatch(line)
        told += [told[-1]] * (int(note[1]) - 1) if note else [line]
    assert told == lines
    assert len(log.encode()) <= sum(len(f"{line}\n".encode()) for line in lines)
