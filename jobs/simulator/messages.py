"""The simulator's error messages and warnings (`docs/reference/simulator-command-line.md#messages`).

Messages quote profiles, so they are untrusted. Each returned message is one line of printable characters, cut to a
maximum length, with absolute paths reduced to file names.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

MAX_WARNINGS = 20
_MESSAGE_LENGTH = 500
# Since 2026, each line begins with a grade; the rest of the line is unchanged.
_GRADE = re.compile(r"(?:Trivial|Moderate|Severe): ")
# The last one is how the C++ library reports an uncaught exception.
_ERROR = re.compile(r"(?:Error: |ERROR! |what\(\): +)")
_WARNING = re.compile(r"Trivial: |(?:Moderate: )?Warning: ")
# A consequence of an error or of a stop by the service, not a cause.
_CANCELLED = re.compile(r"(?:Simulation (?:has been|was) )?cancell?ed\b", re.IGNORECASE)
# Signal handlers, a call that the sandbox always denies (seccomp.py), and the notes of streams.py and log_merge.py.
_NOISE = re.compile(
    r"sim_signal_handler: |minisim: Interrupt!|ProfileSet=|Could not set process priority|"
    r"\[the line above came |\[cut after |\[shard \d+ of \d+\]$"
)
# The folders of an absolute path; a list of ids such as 1/2/3 does not match.
_FOLDERS = re.compile(r"(?:(?<=[\s'\"(])|^)(?:/[^/\s'\"]+)*/(?=[^/\s'\"])")


def failure_message(lines: Iterable[str]) -> str | None:
    """Return the cause of a failure from the lines of stderr, or None.

    That is the first error other than "Canceled". If the run was only cancelled, it is the first remark.
    """
    remark = None
    is_cancelled = False
    for line in map(str.strip, lines):
        text = _without_grade(line)
        error = _ERROR.match(text)
        message = text[error.end() :] if error else text
        is_error = error or _is_assertion(text)
        if _CANCELLED.match(message):
            is_cancelled = True
        elif is_error and _sanitized(message):
            return _sanitized(message)
        elif remark is None and not _WARNING.match(line) and not _NOISE.match(line):
            remark = _sanitized(message) or None
    return (remark or "The simulator cancelled the run without giving a reason.") if is_cancelled else None


def warnings(lines: Iterable[str]) -> list[str]:
    """Return the warnings in the lines of stderr: each once, at most `MAX_WARNINGS`."""
    return distinct(_without_grade(line) for line in lines if is_remark(line))


def printed_warnings(lines: Iterable[str]) -> list[str]:
    """Return the warnings in the lines of stdout: each once, at most `MAX_WARNINGS`."""
    return distinct(text for text in map(_without_grade, lines) if text.startswith("Warning: "))


def distinct(messages: Iterable[str]) -> list[str]:
    """Return messages that are safe to show, each once, at most `MAX_WARNINGS`."""
    return list(islice(_unique(filter(None, map(_sanitized, messages))), MAX_WARNINGS))


def _unique(messages: Iterable[str]) -> Iterator[str]:
    """Yield each message the first time it occurs."""
    seen = set()
    for message in messages:
        if message not in seen:
            seen.add(message)
            yield message


def is_remark(line: str) -> bool:
    """Return whether a line of stderr is a remark, not an error, a cancellation or noise."""
    text = _without_grade(line)
    return not (_ERROR.match(text) or _is_assertion(text) or _CANCELLED.match(text) or _NOISE.match(text))


def _is_assertion(text: str) -> bool:
    """Return whether a line is a failed assertion, after which the program aborts."""
    return ": Assertion `" in text and text.endswith("' failed.")


def _without_grade(line: str) -> str:
    """Return a line without its grade and surrounding blanks."""
    line = line.strip()
    graded = _GRADE.match(line)
    return line[graded.end() :] if graded else line


def _sanitized(message: str) -> str:
    """Return a message that is safe to show."""
    kept = _FOLDERS.sub("", message[: 2 * _MESSAGE_LENGTH])
    return "".join(character for character in kept if character.isprintable()).strip()[:_MESSAGE_LENGTH]
