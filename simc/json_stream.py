"""Streaming reader for a part of a large JSON document.

`read` returns a part that a shape names: a dict for an object (the shape of each key to read), a function that
creates a `Collector` for an array, `Members` for an object with unknown keys, None for anything else. All other
parts are skipped and use no memory. `events` yields the whole document, piece by piece.
"""

import codecs
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain
from typing import Any, BinaryIO, Protocol

from ijson import JSONError, sendable_list
from ijson.backends import yajl2_c

_CHUNK_BYTES = 64 << 10
# The parser buffers whole strings, so this bounds its memory.
_LARGEST_TEXT_BYTES = 4 << 20
_END = b""
# Twice as many digits in a row contain a whole block. The parser fails on numbers that Python cannot convert.
_DIGITS_BLOCK = 1_024
# Longer strings are cut, unless their shape is WHOLE; the service never shows more.
_KEPT_CHARACTERS = 20_000
DEEPEST = 1_000
# Real reports have about 15 bytes per value. A report with far more values would take minutes.
_BYTES_PER_VALUE = 5

_STARTS = frozenset({"start_map", "start_array"})
_ENDS = frozenset({"end_map", "end_array"})
# The name of an event of the parser, and the text of a key or the value of a string, number or boolean.
Event = tuple[str, Any]


class UnreadableJson(Exception):
    """The document cannot be read; the message says why, with the subject "it"."""


class Collector(Protocol):
    """A receiver of an array: `take` is called with each entry, reduced to `shape`, which is read once for each."""

    @property
    def shape(self) -> "Shape": ...

    def take(self, entry: Any) -> None:
        """Process the next entry."""


@dataclass(frozen=True, slots=True)
class Members:
    """The shape of an object with unknown keys. A collector takes each key with its value, as a pair."""

    new_collector: Callable[[], Collector]


class Mark(Enum):
    """Shapes without parts."""

    # Of entries that a collector does not take: the next one and all after it are skipped.
    DONE = auto()
    # Of a string that must not be cut, such as a name. The collector limits what it keeps of them.
    WHOLE = auto()


DONE, WHOLE = Mark
Shape = Mapping[str, "Shape"] | Callable[[], Collector] | Members | Mark | None


def read(stream: BinaryIO, shape: Mapping[str, Shape], *, max_bytes: int) -> dict[str, Any]:
    """Return the part of the document that a shape names, with a collector for each array and each `Members`.

    A value of another type than its shape is returned as `{}`, `[]` or itself. If keys repeat, the last one wins.
    Memory: at most 40 MB, plus what the collectors keep. Raises UnreadableJson.
    """
    document_events = events(stream, max_bytes=max_bytes)
    document = _read_object(document_events, shape)
    finish(document_events)
    return document


def events(stream: BinaryIO, *, max_bytes: int) -> Iterator[Event]:
    """Return the events of a document after the start of its object. Numbers are integers or decimals.

    The document is known to be valid only after `finish`. Raises UnreadableJson, as does each step of the iterator.
    """
    found = chain.from_iterable(_batches(stream, max_bytes=max_bytes))
    if next(found) != ("start_map", None):
        raise UnreadableJson("it is not an object")
    return found


def finish(events: Iterator[Event]) -> None:
    """Check the rest of a document after its object. Raises UnreadableJson."""
    for _ in events:
        pass


def members(events: Iterator[Event]) -> Iterator[tuple[str, Event]]:
    """Yield each key of the object that has just begun, with the first event of its value.

    The caller must read the rest of the value, for example with `skip`, before the next key.
    """
    for event, key in events:
        if event == "end_map":
            return
        yield key, next(events)


def skip(first: Event, events: Iterator[Event]) -> None:
    """Skip a value. Raises UnreadableJson."""
    if first[0] in _STARTS:
        _skip(events)


def _read_value(first: Event, events: Iterator[Event], shape: Shape) -> Any:
    event, value = first
    if event == "start_map" and isinstance(shape, Members):
        return _read_members(events, shape)
    if event == "start_map" and isinstance(shape, Mapping):
        return _read_object(events, shape)
    if event == "start_map":
        _skip(events)
        return {}
    if event == "start_array" and callable(shape):
        return _read_array(events, shape)
    if event == "start_array":
        _skip(events)
        return []
    return value[:_KEPT_CHARACTERS] if event == "string" and shape is not WHOLE else value


def _read_object(events: Iterator[Event], shape: Mapping[str, Shape]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, first in members(events):
        if key in shape:
            result.pop(key, None)
            result[key] = _read_value(first, events, shape[key])
        else:
            skip(first, events)
    return result


def _read_members(events: Iterator[Event], shape: Members) -> Collector:
    collector = shape.new_collector()
    for key, first in members(events):
        wanted = collector.shape
        if wanted is DONE:
            _skip_rest(first, events)
            break
        collector.take((key[:_KEPT_CHARACTERS], _read_value(first, events, wanted)))
    return collector


def _read_array(events: Iterator[Event], new_collector: Callable[[], Collector]) -> Collector:
    collector = new_collector()
    for event in events:
        if event[0] == "end_array":
            break
        shape = collector.shape
        if shape is DONE:
            _skip_rest(event, events)
            break
        collector.take(_read_value(event, events, shape))
    return collector


def _skip_rest(first: Event, events: Iterator[Event]) -> None:
    skip(first, events)
    _skip(events)


def _skip(events: Iterator[Event]) -> None:
    """Skip the rest of the object or array that has just begun."""
    depth = 1
    for event, _ in events:
        if event in _STARTS:
            depth += 1
            if depth > DEEPEST:
                raise UnreadableJson("it is nested too deeply")
        elif event in _ENDS:
            depth -= 1
            if not depth:
                return


def _batches(stream: BinaryIO, *, max_bytes: int) -> Iterator[list[Event]]:
    batch = sendable_list()
    parser = yajl2_c.basic_parse_coro(batch)
    try:
        for chunk in _chunks(stream, max_bytes=max_bytes):
            parser.send(chunk)
            yield batch
            batch.clear()
        with suppress(StopIteration):
            parser.send(_END)
    except JSONError:
        raise UnreadableJson("it is truncated or not valid JSON") from None
    except (ValueError, ArithmeticError):
        raise UnreadableJson("it contains a number with too many digits") from None
    yield batch


def _chunks(stream: BinaryIO, *, max_bytes: int) -> Iterator[bytes]:
    """Yield the document in chunks, within the limits. Bytes that are not UTF-8 are replaced."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    guard = _Guard(max_bytes)
    while chunk := stream.read(_CHUNK_BYTES):
        guard.check(chunk)
        # The parser treats an empty chunk as the end.
        if text := decoder.decode(chunk):
            yield text.encode()
    if not guard.bytes:
        raise UnreadableJson("it is empty")
    if text := decoder.decode(b"", final=True):
        yield text.encode()


class _Guard:
    """Rejects input that would crash the parser or make it use too much memory or time."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = self.values = 0
        self.in_text = self.is_escaped = False
        # The length so far of the string in which the last chunk ended.
        self.text_bytes = 0

    def check(self, chunk: bytes) -> None:
        """Check the next chunk. Raises UnreadableJson."""
        self.bytes += len(chunk)
        if self.bytes > self.max_bytes:
            raise UnreadableJson(f"it is larger than {self.max_bytes} bytes")
        self.values += chunk.count(b",") + chunk.count(b"[") + chunk.count(b"{")
        if self.values > self.max_bytes // _BYTES_PER_VALUE:
            raise UnreadableJson("it contains too many values")
        for start in _digits(chunk):
            quotes, _ = _quotes(chunk[:start], is_escaped=self.is_escaped)
            if not self.in_text ^ bool(quotes % 2):
                raise UnreadableJson("it contains a number with too many digits")
        quotes, self.is_escaped = _quotes(chunk, is_escaped=self.is_escaped)
        self.in_text ^= bool(quotes % 2)
        self.text_bytes = self.text_bytes + len(chunk) if self.in_text and not quotes else 0
        if self.text_bytes > _LARGEST_TEXT_BYTES:
            raise UnreadableJson(f"it contains a string of more than {_LARGEST_TEXT_BYTES >> 20} MB")


def _quotes(chunk: bytes, *, is_escaped: bool) -> tuple[int, bool]:
    """Return how many quotes begin or end a string, and whether the next chunk's first byte is escaped."""
    if is_escaped:
        chunk = chunk[1:]
    if b"\\" not in chunk:
        return chunk.count(b'"'), False
    chunk = chunk.replace(rb"\\", b"")
    return chunk.count(b'"') - chunk.count(rb"\""), chunk.endswith(b"\\")


def _digits(chunk: bytes) -> Iterator[int]:
    """Yield the start of each block that consists only of digits."""
    sample = chunk[::_DIGITS_BLOCK]
    for number in range(len(sample) - 1):
        start = number * _DIGITS_BLOCK
        if sample[number : number + 2].isdigit() and chunk[start : start + _DIGITS_BLOCK].isdigit():
            yield start
