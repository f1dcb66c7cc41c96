"""The causes of failed runs: one table from messages, statuses and signals to causes.

| cause | error code | seen in |
|---|---|---|
| nothing to simulate | `input_invalid` | "Nothing to sim!" on stderr, or on stdout with status 0 (2026) |
| the text | `simulation_error` | status 1 and 81 (setup), 11 with an error (fight style), 51 (stuck) |
| an unknown character | `simulation_error` | "Error response 404 from Blizzard API" (`bcp_api.cpp`) |
| the game platform | `execution_failed` | status 60; "Unable to download JSON" (`bcp_api.cpp`) |
| the report | `execution_failed` | status 61; "Error generating JSON report" (`report_json.cpp`) |
| disk, memory | `execution_failed` | messages of `errno` and `std::bad_alloc`; limits of the sandbox |
| the build | `execution_failed` | a signal, 128 + a signal, or status 11 without an error |
| the build | `execution_failed` | "Error in child simulation" (`sim.cpp`), assertions, exceptions |

A message decides before a status, because older builds exit with 1 for everything. A crash decides before both.
Errors of the service itself are exceptions, which end a job with `internal` (`jobs/execution/attempt.py`).
"""

import re
import signal
from collections.abc import Mapping
from enum import StrEnum

from jobs.enums import ErrorCode

# The end of a completed job whose HTML report is missing
UNFINISHED_HTML = "all fights were done, but the simulator did not finish it"


class FailureCause(StrEnum):
    """What made a run fail."""

    NOTHING = "nothing to simulate"
    TEXT = "text"
    PLATFORM = "game platform"
    REPORT = "report"
    DISK = "disk"
    MEMORY = "memory"
    BUILD = "build"


class Fault(StrEnum):
    """Whose fault it is that a job did not complete."""

    SERVICE = "service"
    SIMULATOR = "simulator"
    USER = "user"


# A job that its owner cancelled has no fault. The queue timeout counts as the service's, which had no free slot.
FAULTS: Mapping[str, Fault] = {
    ErrorCode.INTERNAL: Fault.SERVICE,
    ErrorCode.EXECUTION_INTERRUPTED: Fault.SERVICE,
    ErrorCode.BUILD_UNAVAILABLE: Fault.SERVICE,
    ErrorCode.QUEUE_TIMEOUT: Fault.SERVICE,
    ErrorCode.EXECUTION_FAILED: Fault.SIMULATOR,
    ErrorCode.SIMULATION_ERROR: Fault.USER,
    ErrorCode.INPUT_INVALID: Fault.USER,
    ErrorCode.EXECUTION_TIMEOUT: Fault.USER,
    ErrorCode.MAX_CREDITS_REACHED: Fault.USER,
    ErrorCode.INSUFFICIENT_CREDITS: Fault.USER,
}
# From the simulator's own handler of segmentation faults, which prints no error. Builds of autumn 2025 also exit
# with it for an invalid fight style, after an error.
HANDLED_CRASH = 11
# The shell and the dynamic loader exit with these if a program cannot be run; simulators never do.
NO_PROGRAM = (126, 127)
_CRASHES = (
    signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGKILL, signal.SIGSEGV, signal.SIGSYS,
    signal.SIGTRAP,
)  # fmt: skip
# A wrapper around a simulator exits with these after a crash.
_WRAPPED_CRASHES = frozenset(128 + number for number in _CRASHES)
_STATUSES: Mapping[int, FailureCause] = {60: FailureCause.PLATFORM, 61: FailureCause.REPORT}
# The first row with a part that is found decides, regardless of case.
_TABLE: tuple[tuple[FailureCause, tuple[str, ...]], ...] = (
    (FailureCause.NOTHING, (r"\bnothing to sim\b",)),
    # Unknown characters and realms, and credentials that the platform refuses
    (
        FailureCause.TEXT,
        (
            r"\b(?:response|code|HTTP|error|status)\W{1,3}(?:code\W{1,2})?(?:400|401|404)\b",
            r"\b404\b",
            r"\bresponse 403 from blizzard api\b",
            r"\bblizzard api: .*\bnot found\b",
            r"\binvalid\b.*\bapi(?:key|token)\b",
            r"\b(?:character|guild|player|profile|realm)\b.*\b(?:not found|does not exist)\b",
        ),
    ),
    (
        FailureCause.PLATFORM,
        (
            r"\bnetwork error\b",
            r"\bblizzard api responded\b",
            r"\bresponse from blizzard api\b",
            r"\bcurl\b",
            r"\b(?:could not|couldn't|cannot|failed to|unable to) (?:connect|resolve|authorize|fetch)\b",
            r"\b(?:connection|operation|request) timed out\b",
            r"\bconnection (?:refused|reset)\b",
            r"\bauthorization failed\b",
        ),
    ),
    # Items are looked up in the build's own data first, so an unknown item is an error of the text.
    (FailureCause.TEXT, (r"\bdownload item\b",)),
    (FailureCause.PLATFORM, (r"\bunable to download\b", r"\berror response \d* ?from\b")),
    (FailureCause.DISK, ("no space left", "disk quota", "file too large", "input/output error", "read-only file")),
    (
        FailureCause.MEMORY,
        (r"\bbad_alloc\b", "cannot allocate memory", r"\bout of memory\b", "resource temporarily unavailable"),
    ),
    (
        FailureCause.REPORT,
        (
            r"\breport output error\b",
            r"\berror generating \w+ report\b",
            r"\b(?:json|html) writer\b",
            r"\b(?:unable|failed) to (?:open|write|create)\b.*\b(?:report|output)\b",
        ),
    ),
    (
        FailureCause.BUILD,
        (
            r"\berror in child simulation\b",
            r"\blocale::",
            r"\bterminate called\b",
            ": Assertion `",
            r"\bsegmentation fault\b",
            r"\bstd::\w+",
        ),
    ),
)
_MESSAGES = tuple((re.compile("|".join(parts), re.IGNORECASE), cause) for cause, parts in _TABLE)
# Addresses contain names of characters, and quotes contain what the profile says.
_QUOTED = re.compile(r"https?://[^\s'\"]+|'[^']*'", re.IGNORECASE)
ERROR_CODES: Mapping[FailureCause, ErrorCode] = {
    FailureCause.NOTHING: ErrorCode.INPUT_INVALID,
    FailureCause.TEXT: ErrorCode.SIMULATION_ERROR,
} | dict.fromkeys(
    (FailureCause.PLATFORM, FailureCause.REPORT, FailureCause.DISK, FailureCause.MEMORY, FailureCause.BUILD),
    ErrorCode.EXECUTION_FAILED,
)


def named_cause(text: str | None) -> FailureCause | None:
    """Return the cause that a message, or a reason with a message, names; None if it names none."""
    plain = _QUOTED.sub("", text or "")
    return next((cause for pattern, cause in _MESSAGES if pattern.search(plain)), None)


def cause_of(message: str | None, status: int | None) -> FailureCause | None:
    """Return why a simulator exited with a status other than 0 and did not crash; None if it gave no reason."""
    return named_cause(message) or _STATUSES.get(status or 0) or (FailureCause.TEXT if message else None)


def failure_cause(reason: str | None, code: str | None) -> FailureCause | None:
    """Return the cause of a job's failure from its reason and the exit code of its simulator, None if unknown."""
    return named_cause(reason) or _STATUSES.get(int(code) if code and code.isdigit() else 0)


def is_crash(code: str | None, *, has_error: bool = False) -> bool:
    """Return whether an exit code, as `verdict.exit_code` returns it, means a crash.

    `has_error` is whether the simulator printed an error with status 11, as for jobs with `simulation_error`.
    """
    if code is None or not code.isdigit():
        return code is not None
    return int(code) in _WRAPPED_CRASHES or (int(code) == HANDLED_CRASH and not has_error)
