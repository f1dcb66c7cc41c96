"""Output: lines, tables, JSON and progress. Everything is made printable here, and nothing is printed elsewhere."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from simservice_client.cli.text import padded, printable, shortened, width

GAP = "  "
LEAST_COLUMNS = 8
DEFAULT_COLUMNS = 80
TERMINAL = Path("CONIN$" if os.name == "nt" else "/dev/tty")
COLOURS = {"red": "31", "green": "32", "yellow": "33", "dim": "2"}


@dataclass(frozen=True)
class Column:
    """A column of a table. `colours` has the colours of some of its texts."""

    title: str
    is_right: bool = False
    colours: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Console:
    """Standard output and standard error of a command."""

    as_json: bool = False

    @property
    def shows_progress(self) -> bool:
        """Whether there is a terminal on which a progress bar disturbs nothing."""
        return _is_terminal(sys.stderr) and not self.as_json

    @property
    def error_columns(self) -> int:
        """The width of the terminal of standard error."""
        return _columns(sys.stderr)

    def line(self, text: str = "") -> None:
        """Print a line of text."""
        _write(sys.stdout, printable(text) + "\n")

    def log(self, text: str) -> None:
        """Print a line of a log at once, with its tabs."""
        _write(sys.stdout, printable(text.rstrip("\r\n").expandtabs()) + "\n", at_once=True)

    def script(self, text: str) -> None:
        """Print a text of this package as it is."""
        _write(sys.stdout, text)

    def document(self, value: Any) -> None:
        """Print the only JSON document of a command."""
        _write(sys.stdout, json.dumps(value, indent=2) + "\n")

    def event(self, value: Any) -> None:
        """Print one of several JSON documents, in one line and at once."""
        _write(sys.stdout, json.dumps(value) + "\n", at_once=True)

    def complain(self, text: str) -> None:
        """Print an error or a warning in one line of standard error."""
        self.clear_progress()
        _write(sys.stderr, f"simctl: {printable(text)}\n", at_once=True)

    def note(self, text: str) -> None:
        """Print what only a person wants to know."""
        if self.shows_progress:
            self.clear_progress()
            _write(sys.stderr, printable(text) + "\n", at_once=True)

    def ask(self, question: str) -> str | None:
        """Return the answer of the person at the terminal, None without one."""
        if not _is_terminal(sys.stderr):
            return None
        try:
            # Standard input may be a profile.
            with TERMINAL.open(encoding="utf-8", errors="replace") as terminal:
                _write(sys.stderr, f"\n{printable(question)}", at_once=True)
                return terminal.readline()
        except OSError:
            return None

    def progress(self, text: str) -> None:
        """Replace the line of progress, if there is a terminal."""
        if self.shows_progress:
            columns = self.error_columns - 1
            _write(sys.stderr, "\r" + padded(shortened(printable(text), columns), columns), at_once=True)

    def clear_progress(self) -> None:
        """Remove the line of progress."""
        if self.shows_progress:
            _write(sys.stderr, "\r" + " " * (self.error_columns - 1) + "\r", at_once=True)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """Print a table. On a terminal, texts are shortened so that it fits."""
        cells = [[printable(cell) for cell in row] for row in rows]
        widths = [
            max(width(text) for text in [column.title, *(row[place] for row in cells)])
            for place, column in enumerate(columns)
        ]
        if _is_terminal(sys.stdout):
            _narrow(widths, columns, _columns(sys.stdout))
        self._row([column.title for column in columns], columns, widths, colour="dim")
        for row in cells:
            self._row(row, columns, widths)

    def _row(
        self, row: Sequence[str], columns: Sequence[Column], widths: Sequence[int], *, colour: str = ""
    ) -> None:
        """Print one row of printable cells."""
        parts = []
        for cell, column, wide in zip(row, columns, widths, strict=True):
            text = padded(shortened(cell, wide), wide, is_right=column.is_right)
            parts.append(_coloured(text, colour or column.colours.get(cell, "")))
        _write(sys.stdout, GAP.join(parts).rstrip() + "\n")


def _columns(stream: TextIO) -> int:
    """Return the width of a terminal."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return max(columns or DEFAULT_COLUMNS, 2 * LEAST_COLUMNS)


def _narrow(widths: list[int], columns: Sequence[Column], room: int) -> None:
    """Reduce the widest columns of text until a table fits, as far as they stay readable. Figures are never cut."""
    texts = [place for place, column in enumerate(columns) if not column.is_right]
    while texts and sum(widths) + len(GAP) * (len(widths) - 1) > room:
        widest = max(texts, key=lambda place: widths[place])
        if widths[widest] <= LEAST_COLUMNS:
            return
        widths[widest] -= 1


def _coloured(text: str, colour: str) -> str:
    if not colour or not _has_colours(sys.stdout):
        return text
    return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m"


def _has_colours(stream: TextIO) -> bool:
    return _is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False


def _write(stream: TextIO, text: str, *, at_once: bool = False) -> None:
    stream.write(text)
    if at_once:
        stream.flush()
