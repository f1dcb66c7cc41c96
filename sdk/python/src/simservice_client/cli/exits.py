"""Exit statuses, and the one line that explains an error."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from simservice_client.errors import (
    ApiError,
    DownloadFailed,
    JobNotCompleted,
    NoFigures,
    NotConfigured,
    SimserviceError,
)

FIRST_OWN_FAULT = 500


class Exit(IntEnum):
    """The exit statuses of `simctl`."""

    COMPLETED = 0
    NOT_COMPLETED = 1
    USAGE = 2
    REFUSED = 3
    UNREACHABLE = 4
    LOCAL = 5
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141


MEANINGS = {
    Exit.COMPLETED: "success; the jobs completed",
    Exit.NOT_COMPLETED: "a job did not complete, or `check` found that it would be refused",
    Exit.USAGE: "invalid arguments, or no address or API key",
    Exit.REFUSED: "the service refused the request",
    Exit.UNREACHABLE: "the service did not respond, failed, or is not the API",
    Exit.LOCAL: "a local file cannot be read or written",
    Exit.INTERRUPTED: "interrupted with Ctrl-C; submitted jobs continue unless cancelled",
    Exit.OUTPUT_CLOSED: "the program that reads the output has ended",
}


class CommandError(Exception):
    """An error of the command line itself. The message is one line."""

    def __init__(self, message: str, status: Exit) -> None:
        super().__init__(message)
        self.status = status


def status_of(error: Exception) -> Exit:
    """Return the exit status after an error."""
    if isinstance(error, CommandError):
        return error.status
    if isinstance(error, ApiError):
        return Exit.REFUSED if error.status < FIRST_OWN_FAULT else Exit.UNREACHABLE
    if isinstance(error, (JobNotCompleted, NoFigures)):
        return Exit.NOT_COMPLETED
    if isinstance(error, NotConfigured):
        return Exit.USAGE
    # A download also fails if its content is not what the service announced.
    is_local = isinstance(error, OSError) or (
        isinstance(error, DownloadFailed) and isinstance(error.__cause__, OSError)
    )
    return Exit.LOCAL if is_local else Exit.UNREACHABLE


def message_of(error: Exception) -> str:
    """Return what went wrong, in one line."""
    if isinstance(error, ApiError):
        return " ".join([error.message, *details_of(error.meta), f"({error.code})"])
    if isinstance(error, OSError) and not isinstance(error, SimserviceError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    return str(error)


def details_of(meta: Mapping[str, Any]) -> list[str]:
    """Return what the details of an error say beside its sentence. They can have any form."""
    details = [_issue(each) for each in _listed(meta.get("issues"))]
    text = meta.get("message")
    return [*details, text] if isinstance(text, str) else details


def _listed(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list in an error's details."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _issue(issue: dict[str, Any]) -> str:
    return f"{issue.get('path')}: {issue.get('message')}"
