"""Merge many or large reports, each in its own process: `python -m tests.simc.merge_memory`.

It prints for each case its name, the growth of the process's peak memory in bytes, and the outcome. The reports are
generated while they are read.
"""

import io
from collections.abc import Callable
from functools import partial
from tempfile import TemporaryFile
from typing import BinaryIO

from simc.report_merge import merge
from simc.report_reader import read_report
from simc.reports import BrokenReport
from tests.simc.report_memory import (
    DPS,
    EMOJI,
    FILLER,
    MAX_BYTES,
    PLAYERS,
    SET,
    SETS,
    Pieces,
    Pipe,
    named,
    peak_bytes,
    repeated,
    run_all,
)

LONG = list(repeated(b'"%s",' % (b"x" * 60_000), 1_200))
STATISTICS = b'"statistics":{"elapsed_time_seconds":1.5,"total_events_processed":7}}}'


def base(*, actors: int) -> Pieces:
    """Yield the report of shard 0, of about 1.06 MB for each actor."""
    yield PLAYERS
    yield from named(b"Actor ", DPS + b"," + FILLER, actors)
    yield b'],"profilesets":{"metric":"Damage per Second","results":['
    yield from named(b"s", SET, 5_200)
    yield b"]}," + STATISTICS


def shard(number: int, *, profilesets: int = 40, name: bytes = b"") -> Pieces:
    """Yield the report of another shard."""
    yield PLAYERS + SETS
    yield from named(b"s%d." % number, SET + b',"iterations":1502', profilesets, name=name)
    yield b"]}," + STATISTICS


CASES: dict[str, tuple[Pieces, list[Pieces]]] = {
    "130 shards": (base(actors=10), [shard(number) for number in range(130)]),
    "most names": (base(actors=1), [shard(1, profilesets=99_999, name=EMOJI * 70)]),
    "equal names": (base(actors=1), [shard(1, profilesets=20_000), shard(1, profilesets=20_000)]),
    "long entry": (base(actors=1), [iter([PLAYERS + SETS + b'{"name":"a",%s,"x":[' % SET, *LONG, b"0]}]}}}"])]),
    "long field": (iter([PLAYERS + b'{"name":"Base"}]}}']), [iter([PLAYERS + SETS + b'],"x":[', *LONG, b"0]}}}"])]),
    "nesting": (base(actors=1), [iter([PLAYERS + SETS + b'{"x":', *repeated(b"[", 100 << 20)])]),
}


def opened(pieces: Pieces) -> BinaryIO:
    """Return a report as a file."""
    return io.BufferedReader(Pipe(pieces), 1 << 16)


def merge_case(case: str) -> tuple[int, str]:
    """Merge a case's reports; return how much the process grew, in bytes, and the outcome."""
    before = peak_bytes()
    first, others = CASES[case]
    openers: list[Callable[[], BinaryIO]] = [partial(opened, other) for other in others]
    with TemporaryFile() as target:
        try:
            merge(opened(first), openers, target, max_bytes=MAX_BYTES)
            grown = peak_bytes() - before
            target.seek(0)
            report = read_report(target, max_bytes=MAX_BYTES)
            outcome = f"{len(report.players)} actors, {len(report.profilesets)} profilesets"
        except BrokenReport as error:
            grown, outcome = peak_bytes() - before, str(error)
    return grown, outcome


if __name__ == "__main__":
    run_all(CASES, merge_case)
