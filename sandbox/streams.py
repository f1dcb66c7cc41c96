"""Output streams of a program: split into updates and lines, and kept in short logs."""

import logging
import re
from collections.abc import Callable
from pathlib import Path

logger = logging.getLogger(__name__)

LONGEST_LINE_BYTES = 8192


class LineSplitter:
    """Splits a stream into updates, each ended by CR or LF, and into the lines a terminal would finally show."""

    def __init__(self, *, on_update: Callable[[str], None], on_line: Callable[[str], None]) -> None:
        self.on_update = on_update
        self.on_line = on_line
        self.pending = b""
        self.shown = ""

    def feed(self, data: bytes) -> None:
        """Process the next piece of output, which can be cut anywhere."""
        *pieces, last = re.split(rb"([\r\n])", data)
        for text, end in zip(pieces[::2], pieces[1::2], strict=True):
            self._add(text)
            self._end_update()
            if end == b"\n":
                self._end_line()
        self._add(last)

    def finish(self) -> None:
        """Finish the stream, which may have ended in the middle of a line."""
        self._end_update()
        if self.shown:
            self._end_line()

    def _add(self, text: bytes) -> None:
        self.pending += text[: LONGEST_LINE_BYTES - len(self.pending)]

    def _end_update(self) -> None:
        if self.pending:
            self.shown = self.pending.decode(errors="replace")
            self.pending = b""
            self.on_update(self.shown)

    def _end_line(self) -> None:
        self.on_line(self.shown)
        self.shown = ""


class Log:
    """The log file of one stream, kept short.

    Equal lines in a row are stored once, with their count. They are counted before the log is cut, so a warning
    that is printed a million times does not displace the error after it. The log is cut at the end of a line and
    says so: half a line could contain half a secret, which the scrubber would not recognize.
    """

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        self.file = path.open("wb")
        self.room = max_bytes
        self.max_bytes = max_bytes
        self.last: bytes | None = None
        self.repeats = 0

    def write(self, line: str) -> None:
        """Add the next line."""
        data = f"{line}\n".encode()
        if data == self.last:
            self.repeats += 1
            return
        self._write_repeats()
        self.last = data
        self._write(data)

    def close(self) -> None:
        """Finish the file."""
        self._write_repeats()
        self.file.close()

    def _write_repeats(self) -> None:
        """Write how often the last line was repeated, or the repeats themselves if they are shorter."""
        if self.last and self.repeats:
            note = f"[the line above came {self.repeats + 1} times in a row]\n".encode()
            self._write(min(note, self.last * min(self.repeats, len(note)), key=len))
        self.repeats = 0

    def _write(self, data: bytes) -> None:
        if len(data) <= self.room:
            self.file.write(data)
            self.room -= len(data)
        elif self.room >= 0:
            self.file.write(cut_note(self.max_bytes))
            self.room = -1


def cut_note(max_bytes: int) -> bytes:
    """Return the last line of a log that was cut."""
    return f"[cut after {max_bytes} bytes]\n".encode()


class SafeCallback:
    """Calls a function and suppresses its exceptions; the first is logged."""

    def __init__(self, function: Callable[[str], None]) -> None:
        self.function = function
        self.failed = False

    def __call__(self, text: str) -> None:
        """Call the function."""
        try:
            self.function(text)
        except Exception:
            if not self.failed:
                logger.exception("A callback for the program's output failed; the program continues")
            self.failed = True
