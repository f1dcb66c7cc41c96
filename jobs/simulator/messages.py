"""The simulator's messages: why it failed, and its warnings (simulator-cli, 3.3).

Messages quote profiles, so they are untrusted. Each returned message is one line of printable characters, cut to a
maximum length, with absolute paths reduced to file names.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

MOST_WARNINGS = 20
_MESSAGE_LENGTH = 500
# Versions of 2026 begin each line with a grade; the rest of the line is the same as before.
_GRADE = re.compile(r"(?:Trivial|Moderate|Severe): ")
# The last is the C++ library's word for an exception that nobody caught.
_ERROR = re.compile(r"(?:Error: |ERROR! |what\(\): +)")
_WARNING = re.compile(r"Trivial: |(?:Moderate: )?Warning: ")
# A consequence of an error or of our own stop, which explains nothing.
_CANCELLED = re.compile(r"(?:Simulation (?:has been|was) )?cancell?ed\b", re.IGNORECASE)
# Signal handlers, what the sandbox refuses in every run (seccomp.py), and the notes that logs.py writes.
_NOISE = re.compile(
    r"sim_signal_handler: |minisim: Interrupt!|ProfileSet=|Could not set process priority|"
    r"\[the line above came |\[cut after "
)
# The folders of an absolute path; a list of ids such as 1/2/3 does not match.
_FOLDERS = re.compile(r"(?:(?<=[\s'\"(])|^)(?:/[^/\s'\"]+)*/(?=[^/\s'\"])")


def failure_message(lines: Iterable[str]) -> str | None:
    """Return the first cause of a failure in the lines of stderr, None if there is none.

    That is the first error other than "Canceled". If there is no other, the first remark gives the reason.
    """
    remark = None
    has_cancelled = False
    for line in map(str.strip, lines):
        words = words_of(line)
        error = _ERROR.match(words)
        message = words[error.end() :] if error else words
        is_error = error or is_assertion(words)
        if _CANCELLED.match(message):
            has_cancelled = True
        elif is_error and shown(message):
            return shown(message)
        elif remark is None and not _WARNING.match(line) and not _NOISE.match(line):
            remark = shown(message) or None
    return (remark or "The simulator cancelled the run without giving a reason.") if has_cancelled else None


def warnings(lines: Iterable[str]) -> list[str]:
    """Return the warnings in the lines of stderr: each once, at most `MOST_WARNINGS`."""
    return distinct(words_of(line) for line in lines if is_remark(line))


def printed_warnings(lines: Iterable[str]) -> list[str]:
    """Return the warnings in the lines of stdout: each once, at most `MOST_WARNINGS`."""
    return distinct(words_of(line) for line in lines if words_of(line).startswith("Warning: "))


def distinct(messages: Iterable[str]) -> list[str]:
    """Return messages ready to be shown, each once, at most `MOST_WARNINGS`."""
    return list(islice(once(filter(None, map(shown, messages))), MOST_WARNINGS))


def once(messages: Iterable[str]) -> Iterator[str]:
    """Yield each message the first time it occurs."""
    seen = set()
    for message in messages:
        if message not in seen:
            seen.add(message)
            yield message


def is_remark(line: str) -> bool:
    """Return whether a line of stderr is a remark, not an error, a cancellation or noise."""
    words = words_of(line)
    return not (_ERROR.match(words) or is_assertion(words) or _CANCELLED.match(words) or _NOISE.match(words))


def is_assertion(words: str) -> bool:
    """Return whether a line is the C library's report of a program's own bug, after which it aborts."""
    return ": Assertion `" in words and words.endswith("' failed.")


def words_of(line: str) -> str:
    """Return a line without its grade and surrounding blanks."""
    line = line.strip()
    graded = _GRADE.match(line)
    return line[graded.end() :] if graded else line


def shown(message: str) -> str:
    """Return a message that is safe to show."""
    kept = _FOLDERS.sub("", message[: 2 * _MESSAGE_LENGTH])
    return "".join(character for character in kept if character.isprintable()).strip()[:_MESSAGE_LENGTH]
