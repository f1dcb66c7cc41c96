"""Pool and merge large reports of stages, each in its own process: `python -m tests.simc.stage_memory`.

It prints for each case its name, the growth of the process's peak memory in bytes, and the outcome.
"""

from contextlib import closing
from tempfile import TemporaryFile
from typing import BinaryIO

from simc.report_pooling import pool
from simc.report_reader import read_report
from simc.reports import BrokenReport
from simc.stage_reports import StageReports
from tests.simc.merge_memory import LONG, base
from tests.simc.report_memory import EMOJI, MAX_BYTES, PLAYERS, SET, SETS, Pieces, named, peak_bytes, run_all

REPLICATED = frozenset(f"s{number}" for number in range(1000))
METRIC = b'{"mean":5.5,"stddev":1.5,"mean_stddev":0.5,"min":1,"max":9,"median":5,"iterations":900,"mean_error":1}'
METRICS = b'"additional_metrics":[' + b",".join([METRIC] * 200) + b"]"


def twice() -> Pieces:
    """Yield a report with two results of each of 1,000 profilesets, with many metrics."""
    yield PLAYERS + SETS
    for _ in range(2):
        yield from named(b"s", SET + b"," + METRICS, 1000)
        yield b","
    yield b'{"name":"last","mean":1}]}}}'


def long_entry() -> Pieces:
    """Yield a report with a result of 70 MB."""
    yield PLAYERS + SETS + b'{"name":"s0",%s,"x":[' % SET
    yield from LONG
    yield b"0]}]}}}"


def many(name: bytes = EMOJI * 70) -> Pieces:
    """Yield a report with as many profilesets and as long names as possible."""
    yield PLAYERS + SETS
    yield from named(b"s", SET, 99_999, name=name)
    yield b"]}}}"


CASES: dict[str, list[Pieces]] = {
    "pairs": [twice()],
    "long entry": [long_entry()],
    "most names": [many()],
    "stages": [base(actors=10), base(actors=10), base(actors=10)],
}


def written(pieces: Pieces) -> BinaryIO:
    """Return a file with a report."""
    file = TemporaryFile()  # noqa: SIM115 - lives as long as the process
    file.writelines(pieces)
    file.seek(0)
    return file


def run_case(case: str) -> tuple[int, str]:
    """Pool the reports of a case and merge them; return how much the process grew, in bytes, and the outcome."""
    reports = list(map(written, CASES[case]))
    before = peak_bytes()
    with TemporaryFile() as target, closing(StageReports(max_bytes=MAX_BYTES)) as stages:
        try:
            for report in reports:
                pooled = written(iter(()))
                pool(report, pooled, names=REPLICATED, max_bytes=MAX_BYTES)
                pooled.seek(0)
                stages.add(pooled, names=ALL, is_base=True)
            stages.write(target, order=sorted(stages.parts))
            grown = peak_bytes() - before
            target.seek(0)
            outcome = f"{len(read_report(target, max_bytes=MAX_BYTES).profilesets)} profilesets"
        except BrokenReport as error:
            grown, outcome = peak_bytes() - before, str(error)
    return grown, outcome


class _All:
    def __contains__(self, _: object) -> bool:
        return True


ALL = _All()

if __name__ == "__main__":
    run_all(CASES, run_case)
