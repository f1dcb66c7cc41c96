"""The simulator's error messages and warnings (`docs/reference/simulator-command-line.md#messages`).

Messages quote profiles, so they are untrusted. Each returned message is one line of printable characters, cut to a
maximum length, with absolute paths reduced to file names and invisible characters written as `<U+…>`.
"""

import re
import unicodedata
from collections.abc import Iterable

from simc.characters import code_of, visible

# The warnings that a result lists.
MAX_WARNINGS = 20
# The warnings that are kept until the last stage has ended.
MAX_KEPT = 200
_MESSAGE_LENGTH = 500
# Since 2026, each line begins with a grade; the rest of the line is unchanged.
_GRADE = re.compile(r"(?:Trivial|Moderate|Severe): ")
# The last one is how the C++ library reports an uncaught exception.
_ERROR = re.compile(r"(?:Error: |ERROR! |what\(\): +)")
# Errors without a prefix, some of which only stdout contains.
_BARE_ERROR = re.compile(
    r"Error in child simulation\b|Error generating \w+ report\b|Nothing to sim\b|Simulator likely stuck\b|"
    r"JSON Writer did not accept\b",
    re.IGNORECASE,
)
_USAGE = re.compile(r"\s*\bUsage: .*")
_WARNING = re.compile(r"Trivial: |(?:Moderate: )?Warning: ")
_CUT_SHORT = re.compile(r"Simulation (?:has been|was) cancell?ed\b|Error in child simulation\b")
# A consequence of an error or of a stop by the service, not a cause.
_CANCELLED = re.compile(r"(?:Simulation (?:has been|was) )?cancell?ed\b", re.IGNORECASE)
_CONSEQUENCE = re.compile(r"No active players in sim\b|terminate called after throwing\b")
# Signal handlers, a call that the sandbox always denies (seccomp.py), the notes of streams.py and log_merge.py, and
# a check of the build's own data, which says nothing about the profile.
_NOISE = re.compile(
    r"sim_signal_handler: |minisim: Interrupt!|ProfileSet=|Could not set process priority|"
    r"\[the line above came |\[cut after |\[shard \d+ of \d+\]$|"
    r".*\b(?:does not match verification value|failed verification)\b"
)
# The kinds of warnings that a result lists first, in this order.
_IMPORTANT = (
    re.compile(r"The simulator reports version"),
    re.compile(r"(?P<kind>(?:Warning: )?Unknown option '.*?') with value '", re.IGNORECASE),
    re.compile(r".*(?:\binvalid\b.*\btalent|\btalent\b.*\binvalid\b|\bHash ')", re.IGNORECASE),
    re.compile(r".*\bduplicate name\b", re.IGNORECASE),
)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
# The folders of an absolute path; a list of ids such as 1/2/3 does not match.
_FOLDERS = re.compile(r"(?:(?<=[\s'\"(])|^)(?:/[^/\s'\"]+)*/(?=[^/\s'\"])")


def failure_message(stderr: Iterable[str], stdout: Iterable[str] = ()) -> str | None:
    """Return the cause of a failure from the lines of stderr, or else from those of stdout, or None.

    That is the first error other than "Canceled". A simulator that cancelled the run by itself prints the cause as
    its last remark before that.
    """
    # Stdout also has names and results.
    texts = map(_without_grade, stdout)
    return _cause(stderr) or _cause(t for t in texts if _ERROR.match(t) or _is_error(t) or _CANCELLED.match(t))


def _cause(lines: Iterable[str]) -> str | None:
    cause = remark = consequence = cancelled = None
    for line in map(str.strip, lines):
        text = _without_grade(line)
        error = _ERROR.match(text)
        message = text[error.end() :] if error else text
        if _CANCELLED.match(message):
            cancelled, cause = cancelled or _sanitized(message), cause or remark
        elif (error or _is_error(text)) and _sanitized(message):
            return _USAGE.sub("", _sanitized(message))
        elif _CONSEQUENCE.match(text):
            consequence = consequence or _sanitized(text)
        elif not error and not _WARNING.match(line) and not _NOISE.match(text):
            remark = _sanitized(text) or remark
    if cancelled and not (cause or remark or consequence or _NUMBER.search(cancelled)):
        return "The simulator cancelled the run without giving a reason."
    return cancelled and (cause or remark or consequence or cancelled)


def is_cut_short(lines: Iterable[str]) -> bool:
    """Return whether the simulator says in some lines that it ended before it had simulated everything.

    It exits with 0 nevertheless (`docs/reference/simulator-command-line.md#exit-status`).
    """
    return any(_CUT_SHORT.match(_without_grade(line)) for line in lines)


def last_remark(lines: Iterable[str]) -> str | None:
    """Return the last line of stderr that is neither a warning nor noise, or None."""
    last = None
    for line in map(str.strip, lines):
        if not _WARNING.match(line) and not _NOISE.match(_without_grade(line)):
            last = _sanitized(_without_grade(line)) or last
    return last


def warnings(lines: Iterable[str]) -> list[str]:
    """Return the warnings in the lines of stderr, as `distinct` does."""
    return distinct(_without_grade(line) for line in lines if is_remark(line))


def printed_warnings(lines: Iterable[str]) -> list[str]:
    """Return the warnings in the lines of stdout, as `distinct` does."""
    return distinct(text for text in map(_without_grade, lines) if text.startswith("Warning: "))


def distinct(messages: Iterable[str]) -> list[str]:
    """Return messages that are safe to show: one of each kind, the important ones first, at most `MAX_KEPT`.

    Messages that differ only in their numbers are of one kind.
    """
    ranks: list[dict[str, str]] = [{} for _ in range(len(_IMPORTANT) + 1)]
    for text in filter(None, map(_sanitized, messages)):
        matches = ((rank, pattern.match(text)) for rank, pattern in enumerate(_IMPORTANT))
        rank, match = next((found for found in matches if found[1]), (len(_IMPORTANT), None))
        kind = (match.groupdict().get("kind") or text) if match else _NUMBER.sub("0", text)
        if len(ranks[rank]) < MAX_KEPT and not _NOISE.match(text):
            ranks[rank].setdefault(kind, text)
    return [text for kinds in ranks for text in kinds.values()][:MAX_KEPT]


def listed(notes: Iterable[str], warnings: Iterable[str]) -> list[str]:
    """Return the service's notes and the simulator's warnings as a result lists them: at most `MAX_WARNINGS`.

    If there are more, the last entry says how many were left out.
    """
    entries = [*dict.fromkeys(notes), *distinct(warnings)]
    if len(entries) <= MAX_WARNINGS:
        return entries
    left_out = len(entries) - MAX_WARNINGS + 1
    at_least = "At least " if len(entries) >= MAX_KEPT else ""
    return [*entries[: MAX_WARNINGS - 1], f"{at_least}{left_out} more warnings are in the logs."]


def is_remark(line: str) -> bool:
    """Return whether a line of stderr is a remark, not an error, a cancellation or noise."""
    text = _without_grade(line)
    patterns = (_ERROR, _CANCELLED, _CONSEQUENCE, _NOISE)
    return not (_is_error(text) or any(pattern.match(text) for pattern in patterns))


def _is_error(text: str) -> bool:
    """Return whether a line without a prefix is an error, or a failed assertion, after which the program aborts."""
    return bool(_BARE_ERROR.match(text)) or (": Assertion `" in text and text.endswith("' failed."))


def _without_grade(line: str) -> str:
    line = line.strip()
    graded = _GRADE.match(line)
    return line[graded.end() :] if graded else line


def _sanitized(message: str) -> str:
    """Return a message that is safe to show: visible characters, and no control characters or lone surrogates."""
    kept = _FOLDERS.sub("", message[: 2 * _MESSAGE_LENGTH])
    return "".join(map(_shown, kept)).strip()[:_MESSAGE_LENGTH]


def _shown(character: str) -> str:
    if unicodedata.category(character) in ("Cc", "Cs"):
        return ""
    return visible(character) if character.isprintable() else f"<{code_of(character)}>"
