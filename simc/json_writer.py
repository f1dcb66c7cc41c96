"""Streaming writer of JSON, from the events of `simc.json_stream`."""

import shutil
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import chain
from json.encoder import encode_basestring
from typing import Any, BinaryIO

from simc.json_stream import DEEPEST, Event, UnreadableJson

_STARTS = {"start_map": "{", "start_array": "["}
_ENDS = {"end_map": "}", "end_array": "]"}


def _number(value: int | Decimal) -> str:
    """Return a number with the same digits. Integers stay integers, and fractions stay fractions."""
    text = str(value)
    return text if isinstance(value, int) or "." in text or "E" in text else f"{value:e}"


_SCALARS: dict[str, Callable[[Any], str]] = {
    "string": encode_basestring,
    "number": _number,
    "boolean": {True: "true", False: "false"}.__getitem__,
    "null": {None: "null"}.__getitem__,
}


class Writer:
    """Writes JSON in compact form, and the commas between members and entries.

    Raises `too_large` as soon as it has written more than `max_bytes`.
    """

    def __init__(self, file: BinaryIO, *, max_bytes: int, too_large: Exception) -> None:
        self.file = file
        self.max_bytes, self.too_large = max_bytes, too_large
        self.separator = ""

    def start(self, bracket: str) -> None:
        """Start an object or array."""
        self._write(bracket)
        self.separator = ""

    def end(self, bracket: str) -> None:
        """End an object or array."""
        self.separator = ""
        self._write(bracket)
        self.separator = ","
        self._check_size()

    def key(self, key: str) -> None:
        """Write the key of the next value."""
        self._write(f"{encode_basestring(key)}:")
        self.separator = ""

    def copy(self, first: Event, events: Iterator[Event]) -> None:
        """Write a value of a document. Numbers keep their digits. Raises UnreadableJson."""
        write, separator, depth = self.file.write, self.separator, 0
        for event, value in chain((first,), events):
            if event == "map_key":
                write(f"{separator}{encode_basestring(value)}:".encode())
                separator = ""
            elif event in _SCALARS:
                write(f"{separator}{_SCALARS[event](value)}".encode())
                separator = ","
            elif event in _STARTS:
                write(f"{separator}{_STARTS[event]}".encode())
                separator = ""
                depth += 1
                if depth > DEEPEST:
                    raise UnreadableJson("it is nested too deeply")
            else:
                write(_ENDS[event].encode())
                separator = ","
                depth -= 1
            if not depth:
                break
        self.separator = separator
        self._check_size()

    def append(self, other: "Writer") -> None:
        """Write the members or entries that another writer wrote to a temporary file."""
        if other.separator:
            self._write("")
            other.file.seek(0)
            shutil.copyfileobj(other.file, self.file)
            self.separator = ","
            self._check_size()

    def mark(self) -> tuple[int, str]:
        """Return the position in the file, for `rewind`."""
        return self.file.tell(), self.separator

    def rewind(self, mark: tuple[int, str]) -> None:
        """Remove what was written since `mark`."""
        position, self.separator = mark
        self.file.seek(position)
        self.file.truncate()

    def _check_size(self) -> None:
        if self.file.tell() > self.max_bytes:
            raise self.too_large

    def _write(self, text: str) -> None:
        self.file.write(f"{self.separator}{text}".encode())
