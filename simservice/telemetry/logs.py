"""Log lines as JSON (`LOG_FORMAT=json`), with the ids of the request, attempt or event that logs them."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.http import HttpRequest
from pythonjsonlogger.json import JsonFormatter

from simservice.telemetry.known_errors import is_repeated
from simservice.telemetry.metrics import route_of

IDS = ("request_id", "account_id", "job_id", "attempt", "event_id", "trace_id")
# Libraries add other fields to their records, such as whole requests, which may contain secrets.
FIELDS = ("time", "level", "logger", "message", *IDS, "exc_info")
_ids: ContextVar[Mapping[str, object]] = ContextVar("log_ids")


@contextmanager
def log_ids(**ids: object) -> Iterator[None]:
    """Add ids to the lines that this thread logs during a block."""
    token = _ids.set({**_ids.get({}), **ids})
    try:
        yield
    finally:
        _ids.reset(token)


def add_log_ids(**ids: object) -> None:
    """Add ids until the end of the surrounding block of `log_ids`; do nothing outside of one."""
    current = _ids.get(None)
    if current is not None:
        _ids.set({**current, **ids})


class AddIds(logging.Filter):
    """Adds the ids to each record of a handler. A record's own field of the same name stays."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in _ids.get({}).items():
            record.__dict__.setdefault(name, value)
        # Django logs the status of a response after the block of its request.
        request_id = getattr(getattr(record, "request", None), "META", {}).get("REQUEST_ID")
        if request_id is not None:
            record.__dict__.setdefault("request_id", request_id)
        return True


class HidePaths(logging.Filter):
    """Replaces the path in each record about a request with its route, because the path can be a secret link."""

    def filter(self, record: logging.LogRecord) -> bool:
        request = getattr(record, "request", None)
        if isinstance(request, HttpRequest) and isinstance(record.args, tuple):
            # Django logs it with escapes.
            path = request.path.encode("unicode_escape").decode("ascii")
            record.args = tuple(route_of(request) if argument == path else argument for argument in record.args)
        return True


class DropRepeats(logging.Filter):
    """Drops records whose message, whatever its arguments, this process has logged recently."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not is_repeated((record.name, str(record.msg)))


class JsonLines(JsonFormatter):
    """Writes each record as one line of JSON with the fields of `FIELDS`; `time` is in UTC."""

    def __init__(self) -> None:
        super().__init__(
            ["levelname", "name", "message"],
            rename_fields={"levelname": "level", "name": "logger"},
            timestamp="time",
        )

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        """Return the fields that are written, in their order."""
        return {name: log_data[name] for name in FIELDS if name in log_data}
