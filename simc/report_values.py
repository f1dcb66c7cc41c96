"""Values of a report's optional parts. What is missing, unusable or impossible is None or empty, never an error."""

import heapq
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from decimal import Decimal
from itertools import count
from typing import Any

from simc.json_stream import DONE, Shape
from simc.reports import LARGEST_NUMBER, SMALLEST_NUMBER

# Of one list, and of all lists of a report: reading millions of entries would take minutes.
MAX_READ = 5_000
MAX_READ_IN_ALL = 500_000
# What an entry of a list weighs without its names, in characters.
ENTRY_WEIGHT = 150
# Real lists weigh a quarter of this.
_MAX_WEIGHT = 60_000
_NAME_LENGTH = 300
_LARGEST_ID = 10**10
_NUMBERS = (int, float, Decimal)
_UNKNOWN = ("", "unknown", "none")
# Whether the report contains numbers that no simulation has
_has_impossible: ContextVar[bool] = ContextVar("impossible numbers of this report", default=False)
_left: ContextVar[int] = ContextVar("entries of this report that can still be read", default=MAX_READ_IN_ALL)


def clean(text: str) -> str:
    """Replace what PostgreSQL's jsonb cannot store: NUL and lone surrogates."""
    return re.sub("[\x00\ud800-\udfff]", "\ufffd", text)


def mapping(value: object) -> Mapping[str, Any]:
    """Return an object, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def mean(value: object) -> float | None:
    """Return the mean of a statistic."""
    return number(value.get("mean")) if isinstance(value, dict) else None


def number(value: object) -> float | None:
    """Return a number that cannot be negative."""
    found = signed(value)
    return found if found is not None and found >= 0 else None


def signed(value: object) -> float | None:
    """Return a finite number in the expected range."""
    if type(value) not in _NUMBERS:
        return None
    try:
        found = float(value)  # type: ignore[arg-type]
    except OverflowError:
        return None
    if abs(found) < SMALLEST_NUMBER:
        return 0.0
    return found if abs(found) <= LARGEST_NUMBER else None


def integer(value: object) -> int | None:
    """Return a positive integer, such as an id."""
    return value if type(value) is int and 0 < value <= _LARGEST_ID else None


def text(value: object) -> str | None:
    """Return a name, cut to the length that is shown."""
    found = clean(value[:_NAME_LENGTH]).strip() if isinstance(value, str) else ""
    return None if found.lower() in _UNKNOWN else found


def known(**parts: Any) -> dict[str, Any]:
    """Return the parts that are known: not None and not empty."""
    return {name: part for name, part in parts.items() if part is not None and part not in ("", [], {})}


def kept_by(value: object, kind: type[Any]) -> Any:
    """Return what a collector kept; an empty result if the part is missing or of another type."""
    return value.kept if isinstance(value, kind) else kind().kept


def distinct_names(names: Sequence[tuple[str, str]]) -> list[str]:
    """Return the name of each pair of name and token; the token if several pairs have the name."""
    uses = Counter(name for name, _ in names)
    return [name if uses[name] == 1 else token for name, token in names]


def begin_report() -> None:
    """Begin to count the entries of another report."""
    _left.set(MAX_READ_IN_ALL)
    _has_impossible.set(False)


def not_negative(value: float) -> float:
    """Return a number, or 0, as if it were missing, if it is negative."""
    if value < 0:
        _has_impossible.set(True)
        return 0.0
    return value


def impossible_remarks() -> list[str]:
    """Return a warning if numbers of the report were left out, because no simulation has them."""
    return ["The report contains negative errors or counts. They were left out."] if _has_impossible.get() else []


class Bounded:
    """A collector of optional entries, which reads only the first ones."""

    entry_shape: Shape = None
    read = 0

    @property
    def shape(self) -> Shape:
        """Return the shape of the next entry, and count it."""
        left = _left.get()
        if self.read >= MAX_READ or not left:
            return DONE
        self.read += 1
        _left.set(left - 1)
        return self.entry_shape


class Largest:
    """Keeps the largest entries, limited in number and in weight, which is about the memory that they use."""

    def __init__(self, *, entries: int) -> None:
        self.weight = 0
        self._entries = entries
        self._heap: list[tuple[float, int, int, Any]] = []
        self._order = count(0, -1)

    def add(self, entry: Any, *, size: float, weight: int) -> None:
        """Add an entry, and drop the smallest ones if there are too many."""
        heapq.heappush(self._heap, (size, next(self._order), weight, entry))
        self.weight += weight
        while len(self._heap) > self._entries or self.weight > _MAX_WEIGHT:
            self.weight -= heapq.heappop(self._heap)[2]

    @property
    def kept(self) -> list[Any]:
        """Return the entries, the largest first; equal ones in their order."""
        return [entry for _, _, _, entry in sorted(self._heap, reverse=True)]
