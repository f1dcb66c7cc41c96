"""Read large reports, each in its own process: `python -m tests.simc.report_memory`.

It prints for each case its name, the peak growth of the process in bytes, and the outcome. The reports are
generated while they are read.
"""

import io
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from simc.report_reader import read_report
from simc.reports import BrokenReport

MAX_BYTES = 256 << 20
PLAYERS = b'{"sim":{"players":['
ACTOR = PLAYERS + b'{"name":"a","collected_data":{"dps":{"mean":1}},'
SETS = b'{"name":"Base"}],"profilesets":{"results":['
DPS = b'"collected_data":{"dps":{"mean":5.25,"std_dev":1.5,"mean_std_dev":0.25,"min":1.125,"max":9.5}}'
SET = b'"mean":5.25,"stddev":1.5,"mean_stddev":0.25,"min":1.125,"max":9.5'
EMOJI = "\U0001f525".encode()
# Numbers as real reports have them, one megabyte for each actor.
FILLER = b'"buffs":[' + b",".join([b'{"name":"Icy Veins","uptime":41.172,"data":[2410.25,17,0.5]}'] * 17_500) + b"]"
Pieces = Iterator[bytes]


def repeated(piece: bytes, count: int) -> Pieces:
    """Yield a piece many times, in larger chunks."""
    together = max(1, (1 << 16) // len(piece))
    yield from itertools.repeat(piece * together, count // together + 1)


def named(start: bytes, rest: bytes, count: int, *, name: bytes = b"") -> Pieces:
    """Yield objects with different names."""
    for number in range(count):
        yield b'{"name":"%s%d",%s}%s' % (name + start, number, rest, b"," if number < count - 1 else b"")


def long_names() -> Pieces:
    """Yield actors whose abilities, pets, buffs, stats and resources have different names of a megabyte."""
    parts = (
        b'"stats":[{"compound_amount":1,"name":"%s"}]',
        b'"stats_pets":{"%s":[{"compound_amount":1}]}',
        b'"buffs":[{"uptime":1,"name":"%s"}]',
        b'"gains":[{"%s":{"actual":1}}]',
        b'"race":"%s"',
    )
    yield PLAYERS
    for number in range(10, 21):
        yield b'{"name":"a","collected_data":{"dps":{"mean":1}}'
        yield from (b"," + part % (b"%d" % number * 500_000) for part in parts)
        yield b"},"
    yield b'{"name":"b"}]}}'


def large_details() -> Pieces:
    """Yield the largest details of 50 actors that are kept, in different names."""
    names = [b"%s%d" % (EMOJI * 290, number) for number in range(250)]
    stats = b",".join(b'{"compound_amount":1,"name":"%s"}' % name for name in names)
    buffs = b",".join(b'{"uptime":1,"name":"%s"}' % name for name in names)
    numbers = b",".join(b'"%s":1.5' % name for name in names)
    part = b'"stats":[%s],"stats_pets":{"p":[%s]},"buffs":[%s]' % (stats, stats, buffs)
    collected = b'"collected_data":{"dps":{"mean":1},"buffed_stats":{"attribute":{%s},"stats":{%s}}}'
    collected %= numbers, numbers
    factors = b'"scale_factors":{%s},"scale_deltas":{%s}' % (numbers, numbers)
    points = b",".join(b'{"rating":%d,"dps":1.5,"dps-error":0.5}' % number for number in range(4))
    curves = b",".join(b'{"%s":[%s]}' % (name, points) for name in names)
    yield PLAYERS
    yield from named(b"a", collected + b"," + part + b"," + factors, 60)
    yield b'],"dps_plot":['
    yield from named(b"a", b'"data":[%s]' % curves, 60)
    yield b"]}}"


def max_entries() -> Pieces:
    """Yield the largest accepted report, with its players twice."""
    for start in (PLAYERS, b'],"players":['):
        yield start
        yield from named(b"a", DPS, 99_999, name=EMOJI * 70)
    yield b'],"profilesets":{"results":['
    yield from named(b"s", SET, 99_999, name=EMOJI * 70)
    yield b"]}}}"


def real_size() -> Pieces:
    """Yield a report of 10 actors like a real simulator's, about 11 MB."""
    yield PLAYERS
    yield from named(b"Actor ", DPS + b"," + FILLER, 10)
    yield b"]}}"


CASES: dict[str, Callable[[], Iterable[bytes]]] = {
    "10 actors": real_size,
    "most entries": max_entries,
    "long name": lambda: [PLAYERS, b'{"name":"', *repeated(EMOJI, 25 << 20), b'"}]}}'],
    "escaped quotes": lambda: [PLAYERS, b'{"name":"', *repeated(b'\\"', 10 << 20), b'"}]}}'],
    "empty arrays": lambda: [b'{"x":[', *repeated(b"[],", 5 << 20), b"[]]}"],
    "arrays as players": lambda: [PLAYERS, *repeated(b"[],", 5 << 20), b"[]]}}"],
    "nesting": lambda: [b'{"sim":', *repeated(b"[", 100 << 20)],
    "nested objects": lambda: [*repeated(b'{"sim":', 10 << 20)],
    "long number": lambda: [b'{"x":', *repeated(b"9", 1_000_000), b"}"],
    "long numbers": lambda: [b'{"x":[', *repeated(b"9" * 4_400 + b",", 1000), b"1]}"],
    "players": lambda: [PLAYERS, *repeated(b'{"name":"%s"},' % (b"n" * 300), 500_000), b"{}]}}"],
    "short names": lambda: [PLAYERS, *repeated(b'{"name":"a"},', 200_000), b"{}]}}"],
    "profilesets": lambda: [PLAYERS, SETS, *repeated(b'{"name":"a",%s},' % SET, 200_000), b"{}]}}}"],
    "keys": lambda: itertools.chain([b"{"], different_keys(600_000), [b'"sim":1}']),
    "repeated keys": lambda: [PLAYERS, b"{", *repeated(b'"name":"%s",' % (b"n" * 300), 200_000), b'"x":1}]}}'],
    "talents": lambda: [PLAYERS, b'{"talents":[', *repeated(b'{"name":"aa"},', 300_000), b'{}],"name":"a"}]}}'],
    "messages": lambda: [b'{"logs":[', *repeated(b'{"level":"severe","message":"m"},', 300_000), b"{}]}"],
    "different messages": lambda: [
        b'{"logs":[',
        *(b'"m%d",' % number for number in range(30)),
        *repeated(b'"m",', 1_000_000),
        b"{}]}",
    ],
    "invalid bytes": lambda: [PLAYERS, *repeated(b'{"name":"\xff\xfe"},', 50_000), b'{"name":"a"}]}}'],
    "abilities": lambda: [ACTOR, b'"stats":[', *repeated(b'{"compound_amount":1},', 700_000), b"{}]}]}}"],
    "nested abilities": lambda: [
        ACTOR,
        b'"stats":[',
        *repeated(b'{"compound_amount":1,"children":[' * 9 + b"]}" * 9 + b",", 50_000),
        b"{}]}]}}",
    ],
    "pets": lambda: [
        ACTOR,
        b'"stats_pets":{',
        *repeated(b'"p":[{"compound_amount":1}],', 500_000),
        b'"p":[]}}]}}',
    ],
    "long ability names": long_names,
    "largest details": large_details,
    "not a number": lambda: [PLAYERS, b'{"name":"a","x":NaN}]}}'],
    "infinity": lambda: [PLAYERS, b'{"name":"a","x":-Infinity}]}}'],
}


def different_keys(count: int) -> Pieces:
    """Yield different keys."""
    return (b'"k%d":1,' % number for number in range(count))


class Pipe(io.RawIOBase):
    """A readable file that consists of pieces."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces
        self.rest = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, target: Any) -> int:
        """Fill a buffer."""
        self.rest = self.rest or next(self.pieces, b"")
        size = min(len(target), len(self.rest))
        target[:size], self.rest = self.rest[:size], self.rest[size:]
        return size


def peak_bytes() -> int:
    """Return the peak memory of this process in bytes. `getrusage` would include that of its parent process."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) << 10


def read(case: str) -> tuple[int, str]:
    """Read a case's report; return how much the process grew, in bytes, and the outcome."""
    before = peak_bytes()
    try:
        stream = io.BufferedReader(Pipe(iter(CASES[case]())), 1 << 16)
        report = read_report(stream, max_bytes=MAX_BYTES, with_details=True)
        outcome = f"{len(report.players)} actors, {len(report.profilesets)} profilesets"
    except BrokenReport as error:
        outcome = str(error)
    return peak_bytes() - before, outcome


def run_all(cases: Iterable[str], run: Callable[[str], tuple[int, str]]) -> None:
    """Run each case in a fork of this process, and print its name, growth and outcome as a line of JSON."""
    for case in cases:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        else:
            print(json.dumps([case, *run(case)]), flush=True)  # noqa: T201
            os._exit(0)


if __name__ == "__main__":
    run_all(CASES, read)
