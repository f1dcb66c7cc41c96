"""Merging of the logs of a stage's shards into one log."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import BinaryIO

from sandbox.streams import cut_note

_CHUNK_BYTES = 64 << 10


def merge_logs(parts: Sequence[tuple[str, Callable[[], BinaryIO]]], target: BinaryIO, *, max_bytes: int) -> None:
    """Write logs one after another, each under a heading such as `[shard 3 of 12]`; a single log has none.

    Each part is the heading without brackets, and a function that opens the log, which is called twice. The logs
    and headings together get `max_bytes`. If they are longer, the longest are cut to the same length, at the end of
    a line as in `streams.Log`, and the note that says so is added. A log that was cut before keeps a single note.
    """
    logs = [(f"[{heading}]\n" if len(parts) > 1 else "", open_log) for heading, open_log in parts]
    shares = _shares([_size(heading, open_log) for heading, open_log in logs], total=max_bytes)
    for (heading, open_log), share in zip(logs, shares, strict=True):
        with closing(open_log()) as log:
            _write(_lines(log, heading=heading, max_bytes=share), target, max_bytes=share)


def _size(heading: str, open_log: Callable[[], BinaryIO]) -> int:
    """Return the bytes of a part with an end of its last line."""
    size, last = len(heading.encode()), b"\n"
    with closing(open_log()) as log:
        while chunk := log.read(_CHUNK_BYTES):
            size, last = size + len(chunk), chunk
    return size if last.endswith(b"\n") else size + 1


def _shares(sizes: Sequence[int], *, total: int) -> list[int]:
    """Return how much of each part is written: all of the small ones, and an equal length of the others."""
    shares, left = [0] * len(sizes), total
    smallest_first = sorted(range(len(sizes)), key=sizes.__getitem__)
    for waiting, index in zip(range(len(sizes), 0, -1), smallest_first, strict=True):
        shares[index] = min(sizes[index], left // waiting)
        left -= shares[index]
    return shares


def _lines(log: BinaryIO, *, heading: str, max_bytes: int) -> Iterator[bytes]:
    """Yield the heading and the lines of a log, each with an end. Lines longer than `max_bytes` come in pieces."""
    if heading:
        yield heading.encode()
    while line := log.readline(max_bytes + 1):
        yield line if line.endswith(b"\n") else line + b"\n"


def _write(lines: Iterable[bytes], target: BinaryIO, *, max_bytes: int) -> None:
    """Write the lines that fit, and a note if there are more."""
    written = 0
    for line in lines:
        if written + len(line) > max_bytes:
            target.write(cut_note(max_bytes))
            break
        target.write(line)
        written += len(line)
