"""Known causes of errors: what is wrong with the deployment, and what to do about it, in one line."""

import errno
import logging
import os
import ssl
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from traceback import walk_tb
from typing import Any, NamedTuple, cast

from django.conf import settings

logger = logging.getLogger(__name__)

# Each process logs a repeated line only once in this time.
REPEAT_SECONDS = 60.0
# Heartbeats are compared between machines and are valid for ten seconds.
MAX_CLOCK_SECONDS = 2.0
SYNCHRONIZE = "Synchronize the clocks of all machines, for example with chrony."
FULL = (errno.ENOSPC, errno.EDQUOT)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.ENOTDIR)
# Errors that every job on this machine would meet
OF_MACHINE = {
    *FULL,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EAGAIN,
    errno.ESTALE,
}
# Codes of PostgreSQL's errors
DISK_FULL = "53100"
UNDEFINED = ("42P01", "42703", "42883")
# The permission that each request to the bucket's service needs
PERMISSIONS = {
    "PutObject": "s3:PutObject",
    "CreateMultipartUpload": "s3:PutObject",
    "UploadPart": "s3:PutObject",
    "CompleteMultipartUpload": "s3:PutObject",
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "GetObject": "s3:GetObject",
    "HeadObject": "s3:GetObject",
    "ListObjects": "s3:ListBucket",
    "ListObjectsV2": "s3:ListBucket",
    "HeadBucket": "s3:ListBucket",
    "DeleteObject": "s3:DeleteObject",
    "DeleteObjects": "s3:DeleteObject",
}
SKEWED = ("RequestTimeTooSkewed", "RequestExpired")
MISSING = ("NoSuchKey", "404")
# The response to a HEAD request has no code other than its status.
DENIED = ("AccessDenied", "403")
OVERLOADED = ("SlowDown", "TooManyRequests", "429")
BUCKET_SETTINGS = {
    "NoSuchBucket": "Check `ARTIFACTS_BUCKET`, or create the bucket.",
    "InvalidAccessKeyId": "Check `ARTIFACTS_ACCESS_KEY_ID`.",
    "SignatureDoesNotMatch": "Check `ARTIFACTS_SECRET_ACCESS_KEY`.",
}

_lock = threading.Lock()
_logged: dict[Hashable, float] = {}


class KnownError(NamedTuple):
    """What is wrong, and what to do about it, each in one sentence.

    `kind` is the problem with a `%s` for each of its `details`. On another `server`, it is another problem.
    """

    kind: str
    advice: str
    details: tuple[str, ...] = ()
    server: str = ""

    @property
    def problem(self) -> str:
        return self.kind % self.details

    def __str__(self) -> str:
        return f"{self.problem} {self.advice}"


def explain(error: BaseException) -> KnownError | None:
    """Return the known cause of an exception, or None."""
    chain = list(_chain(error))
    if found := _certificate(chain):
        return found
    for each in chain:
        if explain_one := _LIBRARIES.get(_library(each)):
            found = explain_one(each)
        elif isinstance(each, OSError):
            found = _disk(each)
        if found:
            return found
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _library(error: BaseException) -> str:
    """Return the name of the library that an exception comes from. This imports none of them."""
    return type(error).__module__.partition(".")[0]


def machine_problem(error: BaseException) -> str:
    """Return the problem of this machine that led to an exception, empty if it was something else."""
    for each in _chain(error):
        if isinstance(each, OSError) and each.errno in OF_MACHINE:
            return "a disk of this machine is full" if each.errno in FULL else os.strerror(each.errno).lower()
        # CPython's text if the system refuses another thread
        if isinstance(each, RuntimeError) and "can't start new thread" in str(each):
            return "too many threads"
    return ""


def _disk(error: OSError) -> KnownError | None:
    if error.errno in FULL:
        return KnownError("A disk of this machine is full.", "Free space on the disks of DATA_DIR and TMPDIR.")
    if error.errno == errno.EROFS:
        return KnownError("A disk of this machine is read-only.", "Make DATA_DIR and TMPDIR writable.")
    if error.errno in FORBIDDEN and _is_in_data_dir(error.filename):
        return KnownError(
            "%s cannot be used (%s).",
            "DATA_DIR must be a folder that the user of this process may read and write.",
            (str(error.filename), str(error.strerror)),
        )
    return None


def _is_in_data_dir(path: object) -> bool:
    """Return whether a path is DATA_DIR or below it; False before the settings are read."""
    is_path = settings.configured and isinstance(path, str | os.PathLike)
    return is_path and Path(cast(str, path)).is_relative_to(settings.DATA_DIR)


def _postgresql(error: Any) -> KnownError | None:
    """Return the cause of psycopg's error. Without a connection, it has no `sqlstate`."""
    if error.sqlstate == DISK_FULL:
        return KnownError("PostgreSQL's disk is full.", "Free space on it, or move PostgreSQL to a larger disk.")
    if error.sqlstate in UNDEFINED:
        what = error.diag.message_primary or "a table is missing"
        return KnownError(
            "The schema of the database does not match this version: %s.",
            "Run `python manage.py migrate --expand`, then `python manage.py doctor`.",
            (what,),
        )
    return None


def _redis(error: Any) -> KnownError | None:
    message = str(error)
    if message.startswith("MISCONF"):
        return KnownError("Redis cannot write to its disk.", "Free space on it, or set `save` to an empty string.")
    # redis-py removes the code from this message.
    if type(error).__name__ == "OutOfMemoryError":
        return KnownError("Redis's memory is full.", "Raise `maxmemory`.")
    return None


def _bucket(error: Any) -> KnownError | None:
    operation = getattr(error, "operation_name", "")
    code = error.response["Error"].get("Code", "") if operation else ""
    if not operation or code in MISSING:
        return None
    if code in SKEWED:
        return KnownError("This machine's clock differs from that of the bucket's service.", SYNCHRONIZE)
    if code in OVERLOADED or error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500:
        return KnownError(
            "The bucket's service is overloaded or unavailable (%s).",
            "Check its status, its log and its limits.",
            (code,),
        )
    advice = BUCKET_SETTINGS.get(code, "Check the settings of the bucket and its key.")
    if code in DENIED and operation in PERMISSIONS:
        advice = f"Give its key the permission {PERMISSIONS[operation]}."
    return KnownError("The bucket refuses %s (%s).", advice, (operation, code))


_LIBRARIES: dict[str, Callable[[Any], KnownError | None]] = {
    "psycopg": _postgresql,
    "redis": _redis,
    "botocore": _bucket,
}
_SERVERS = {
    "psycopg": "PostgreSQL",
    "redis": "Redis",
    "botocore": "the bucket's service",
    "smtplib": "the mail server",
}


def _certificate(chain: list[BaseException]) -> KnownError | None:
    server = next((_SERVERS[name] for name in _modules(chain) if name in _SERVERS), "a server")
    for error in chain:
        if isinstance(error, ssl.SSLCertVerificationError):
            return _invalid_certificate(server, error.verify_message)
        # libpq reports only a text.
        if _library(error) == "psycopg" and "certificate verify failed" in str(error):
            return _invalid_certificate(server, "")
    return None


def _modules(chain: list[BaseException]) -> Iterator[str]:
    """Yield the names of the libraries that raised the exceptions or passed them on."""
    yield from map(_library, chain)
    for error in chain:
        for frame, _ in walk_tb(error.__traceback__):
            yield str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _invalid_certificate(server: str, reason: str) -> KnownError:
    return KnownError(
        "The certificate of %s is not valid: %s.",
        "Renew it, and check this machine's clock; `python manage.py doctor` shows when it expires.",
        (server, reason or "it may have expired"),
        server,
    )


def wrong_clock(other: str, *, ahead: float) -> KnownError | None:
    """Return the cause if this machine's clock is too many seconds ahead of another one, or behind it."""
    if abs(ahead) <= MAX_CLOCK_SECONDS:
        return None
    where = "ahead of" if ahead > 0 else "behind"
    details = (f"{abs(ahead):.1f}", where, other)
    return KnownError("This machine's clock is %s s %s that of %s.", SYNCHRONIZE, details, other)


def is_repeated(line: Hashable) -> bool:
    """Return whether this process has logged a line within `REPEAT_SECONDS`. If not, note that it is logged now."""
    now = time.monotonic()
    with _lock:
        if now - _logged.get(line, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return True
        _logged[line] = now
        return False


def report(cause: KnownError) -> None:
    """Log a cause, unless this process has logged one of its kind and server within `REPEAT_SECONDS`."""
    if not is_repeated((cause.kind, cause.server)):
        # Sentry receives only this text, without the details.
        logger.error(f"{cause.kind} {cause.advice}", *cause.details)  # noqa: G004 - made of constants


def report_if_known(error: BaseException) -> None:
    """Log the cause of an exception, if it is known."""
    if cause := explain(error):
        report(cause)


class ExplainKnownErrors(logging.Filter):
    """Logs the known causes of the exceptions in a handler's records, before these records."""

    def filter(self, record: logging.LogRecord) -> bool:
        arguments = record.args if isinstance(record.args, tuple) else ()
        for error in (record.exc_info[1] if record.exc_info else None, *arguments):
            if isinstance(error, BaseException):
                report_if_known(error)
        return True
