"""The profile of a job in numbered lines, with the line that an error is about."""

from collections.abc import Sequence
from dataclasses import dataclass

from simc.characters import visible

# Of one page
MAX_LINES = 200
MAX_LINE_CHARACTERS = 400
CONTEXT_LINES = 3


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line, cut to MAX_LINE_CHARACTERS. `is_marked` says that an error is about it."""

    number: int
    text: str
    is_cut: bool
    is_marked: bool


@dataclass(frozen=True, kw_only=True)
class Excerpt:
    """Some of the `count` lines of a profile. `previous` and `following` begin other pages; 0 if there is none."""

    lines: Sequence[Line]
    count: int
    previous: int = 0
    following: int = 0


def page_of(text: str, *, first: int | None, marked: int | None) -> Excerpt:
    """Return the page of a profile that begins with a line, by default the page with the marked line."""
    lines = text.split("\n")
    if first is None:
        first = ((marked or 1) - 1) // MAX_LINES * MAX_LINES + 1
    start = min(max(first, 1), len(lines)) - 1
    end = start + MAX_LINES
    return Excerpt(
        lines=_numbered(lines[start:end], first=start + 1, marked=marked),
        count=len(lines),
        previous=max(1, start + 1 - MAX_LINES) if start else 0,
        following=end + 1 if end < len(lines) else 0,
    )


def around(text: str, line: int) -> Excerpt | None:
    """Return a line with those before and after it, or None if the profile has no such line."""
    lines = text.split("\n")
    if not 1 <= line <= len(lines):
        return None
    start = max(0, line - 1 - CONTEXT_LINES)
    shown = lines[start : line + CONTEXT_LINES]
    return Excerpt(lines=_numbered(shown, first=start + 1, marked=line), count=len(lines))


def _numbered(lines: Sequence[str], *, first: int, marked: int | None) -> list[Line]:
    return [
        Line(
            number=number,
            text=visible(line[:MAX_LINE_CHARACTERS]),
            is_cut=len(line) > MAX_LINE_CHARACTERS,
            is_marked=number == marked,
        )
        for number, line in enumerate(lines, start=first)
    ]
