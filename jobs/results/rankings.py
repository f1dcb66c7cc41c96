"""Rankings of a job's profilesets: their entries, and the list of all of them for jobs with many.

A summary lists the best 200 profilesets. If there are more, names, means and errors of all are stored as JSON,
compressed with zlib.
"""

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, repeat
from typing import Any, NamedTuple

from jobs.artifacts import retention
from jobs.models import Job, JobRanking
from simc.reports import LISTED_RESULTS, Profileset, best_first, has_few_fights

# The number of profilesets in a summary
LISTED = LISTED_RESULTS
# The names of a profile, of at most 2 MB, fit.
MAX_BYTES = 4 << 20
# Many times the size of the largest list that is stored
_UNPACKED_BYTES = 64 << 20


class Entry(NamedTuple):
    """The result of an actor or a profileset. `number` is its place, best first; 0 for the profile's baseline.

    It is a tuple because a page reads thousands of them.
    """

    number: int
    name: str
    mean: float
    # Half the width of the 95 % confidence interval of the mean
    error: float
    stage: int | None = None
    # The smallest value of all iterations
    low: float | None = None
    high: float | None = None
    # Whether there were too few fights to estimate the error
    has_few_fights: bool = False


def listed(results: Iterable[Mapping[str, Any]], *, first: int = 1) -> list[Entry]:
    """Return the entries of a summary's list in its order, numbered from `first`.

    PostgreSQL stores large numbers as integers, whose differences can be too large for a float.
    """
    return [
        Entry(
            number,
            each["name"],
            float(each["mean"]),
            float(each["mean_error"]),
            each.get("stage"),
            _float(each.get("min")),
            _float(each.get("max")),
            has_few_fights(each.get("stddev", 0.0), each.get("mean_stddev", 0.0)),
        )
        for number, each in enumerate(results, first)
    ]


def _float(number: float | None) -> float | None:
    return None if number is None else float(number)


def packed(profilesets: Sequence[Profileset]) -> bytes | None:
    """Return all profilesets as they are stored, or None if a summary lists them all.

    The last ones are left out if they do not fit into MAX_BYTES.
    """
    if len(profilesets) <= LISTED:
        return None
    kept = best_first(profilesets)
    while len(content := _compressed(kept)) > MAX_BYTES:
        kept = kept[: len(kept) * 3 // 4]
    return content


def _compressed(profilesets: Sequence[Profileset]) -> bytes:
    columns = {
        "names": [each.name for each in profilesets],
        "means": [_short(each.statistics.mean) for each in profilesets],
        "errors": [_short(each.statistics.mean_error) for each in profilesets],
        "stages": [each.stage for each in profilesets],
        "fewFights": [
            int(has_few_fights(each.statistics.stddev, each.statistics.mean_stddev)) for each in profilesets
        ],
    }
    text = json.dumps(columns, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return zlib.compress(text.encode())


def _short(number: float) -> float:
    """Return a number with eight digits, more than any page shows."""
    return float(f"{number:.8g}")


def lists_only_some(summary: Mapping[str, Any] | None) -> bool:
    """Return whether a job has more profilesets than its summary lists."""
    profilesets = ((summary or {}).get("mainActor") or {}).get("profilesets", {})
    return bool(profilesets.get("count", 0) > len(profilesets.get("results", [])))


def entries_of(job: Job) -> list[Entry]:
    """Return all profilesets of a job, best first; none if its summary lists them all.

    They are unavailable at the end of the retention period, even before they are removed.
    """
    if not retention.is_kept(job):
        return []
    if not lists_only_some(job.summary):
        return []
    row = JobRanking.objects.filter(job_id=job.pk).first()
    return [] if row is None else unpacked(bytes(row.document))


def unpacked(content: bytes) -> list[Entry]:
    """Return the profilesets of a stored list, best first; none if it is unreadable."""
    try:
        columns = json.loads(zlib.decompressobj().decompress(content, _UNPACKED_BYTES))
        found = map(Entry, count(1), *(columns[name] for name in ("names", "means", "errors", "stages")))
        # Lists of an earlier version do not have the column.
        few = columns.get("fewFights") or repeat(0)
        return [
            entry._replace(has_few_fights=True) if each else entry for entry, each in zip(found, few, strict=False)
        ]
    except (zlib.error, ValueError, KeyError, TypeError):
        return []
