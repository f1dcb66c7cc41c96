"""The service's commands: their base, and how they end if a server fails."""

import sys
from collections.abc import Sequence

from django.core.management import base, execute_from_command_line

CHECK = "`python manage.py doctor` checks the deployment; --traceback shows where this happened."


class BaseCommand(base.BaseCommand):
    """A command that starts without Django's system checks, which import all pages and take half a second.

    `doctor` runs them.
    """

    requires_system_checks = ()


def execute(arguments: Sequence[str]) -> int:
    """Run a command of any app and return the exit status.

    If the deployment is at fault, this prints one line. Other errors are raised, and so are all with `--traceback`.
    """
    try:
        execute_from_command_line([*arguments])
    except Exception as error:
        reason = None if "--traceback" in arguments else _reason_of(error)
        if reason is None:
            raise
        sys.stderr.write(f"{reason} {CHECK}\n")
        return 1
    return 0


def _reason_of(error: Exception) -> str | None:
    """Return what is wrong with the deployment in one line, or None if the error has another cause."""
    # After an error, because every command would load them.
    from django.db import InterfaceError, OperationalError
    from redis import exceptions

    from simservice.telemetry.known_errors import explain

    if cause := explain(error):
        return str(cause)
    text = str(error).partition("\n")[0].removesuffix(".")
    if isinstance(error, OperationalError | InterfaceError):
        return f"PostgreSQL failed: {text}."
    is_redis = isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError)
    return f"Redis failed: {text}." if is_redis else None
