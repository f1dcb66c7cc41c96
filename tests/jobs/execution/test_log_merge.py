import io
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.execution.log_merge import merge_logs
from sandbox.streams import Log
from simc.messages import failure_message, warnings

NOTE = re.compile(rb"\[cut after \d+ bytes\]\n")


def merged(*logs: bytes, max_bytes: int = 1000) -> bytes:
    target = io.BytesIO()
    parts = [(f"shard {number} of {len(logs)}", partial(io.BytesIO, log)) for number, log in enumerate(logs, 1)]
    merge_logs(parts, target, max_bytes=max_bytes)
    return target.getvalue()


@pytest.mark.parametrize(
    ("logs", "expected"),
    [
        ([], b""),
        ([b"a\nb\n"], b"a\nb\n"),
        ([b"a"], b"a\n"),
        ([b""], b""),
        ([b"a", b"", b"\n"], b"[shard 1 of 3]\na\n[shard 2 of 3]\n[shard 3 of 3]\n\n"),
        ([b"\xff\x00", b"\r"], b"[shard 1 of 2]\n\xff\x00\n[shard 2 of 2]\n\r\n"),
    ],
    ids=["none", "one", "no newline", "empty", "three", "other bytes"],
)
def test_logs_follow_each_other_under_headings(logs: Sequence[bytes], expected: bytes) -> None:
    assert merged(*logs) == expected


@pytest.mark.parametrize(
    ("max_bytes", "kept"), [(0, b""), (3, b""), (4, b"abc\n"), (10, b"abc\ndef\n"), (15, b"abc\ndef\nghi\n")]
)
def test_a_log_is_cut_between_lines(max_bytes: int, kept: bytes) -> None:
    assert merged(b"abc\ndef\nghi\njkl\n", max_bytes=max_bytes) == kept + b"[cut after %d bytes]\n" % max_bytes


def test_a_log_that_fits_exactly_is_not_cut() -> None:
    assert merged(b"abc\ndef\n", max_bytes=8) == b"abc\ndef\n"


def test_an_endless_line_is_left_out() -> None:
    assert merged(b"abc\n" + b"x" * 5000 + b"\n", max_bytes=100) == b"abc\n[cut after 100 bytes]\n"


def test_only_the_longest_parts_are_cut_to_the_same_length() -> None:
    lines = b"0123456789\n" * 99
    first, second, third = re.split(rb"\[shard \d of 3\]\n", merged(lines, b"a\n", lines, max_bytes=300))[1:]
    assert second == b"a\n"
    assert NOTE.sub(b"", first) == NOTE.sub(b"", third) == b"0123456789\n" * 11
    assert len(NOTE.findall(first + third)) == 2


def test_nothing_is_cut_if_all_parts_fit_together() -> None:
    logs = [b"0123456789\n" * 20, *[b"a\n"] * 5]
    text = merged(*logs, max_bytes=10**6)
    assert text == b"".join(b"[shard %d of 6]\n%s" % (number, log) for number, log in enumerate(logs, 1))
    assert merged(*logs, max_bytes=len(text)) == text
    assert NOTE.search(merged(*logs, max_bytes=len(text) - 1))


@pytest.mark.parametrize("max_bytes", range(100, 130))
def test_a_log_that_was_cut_before_stays_as_it_is(max_bytes: int, tmp_path: Path) -> None:
    log = Log(tmp_path / "log", max_bytes=max_bytes)
    for number in range(99):
        log.write(f"line {number}")
    log.close()
    text = (tmp_path / "log").read_bytes()
    assert NOTE.search(text)
    assert merged(text, max_bytes=max_bytes) == text


def test_logs_are_opened_one_at_a_time_and_closed() -> None:
    opened: list[io.BytesIO] = []

    def open_log() -> io.BytesIO:
        assert all(stream.closed for stream in opened)
        opened.append(io.BytesIO(b"x" * 99))
        return opened[-1]

    merge_logs([("a", open_log), ("b", open_log)], io.BytesIO(), max_bytes=10)
    assert len(opened) == 4
    assert all(stream.closed for stream in opened)


def test_headings_are_not_messages() -> None:
    lines = merged(b"Simulation has been cancelled\n", b"Warning: x\n").decode().splitlines()
    assert warnings(lines) == ["Warning: x"]
    assert failure_message(lines[:2]) == "The simulator cancelled the run without giving a reason."


@given(st.lists(st.text("ab\n").map(str.encode), max_size=5), st.integers(0, 60))
def test_only_whole_lines_are_left_out(logs: list[bytes], max_bytes: int) -> None:
    text = merged(*logs, max_bytes=max_bytes)
    full = merged(*logs, max_bytes=10**6)
    kept = NOTE.sub(b"", text).split(b"\n")
    assert len(NOTE.sub(b"", text)) <= max_bytes
    assert len(NOTE.findall(text)) <= len(logs)
    remaining = iter(full.split(b"\n"))
    assert all(line in remaining for line in kept)
    assert (text == full) or NOTE.search(text)
