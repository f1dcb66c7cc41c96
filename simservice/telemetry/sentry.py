"""Errors of the service, sent to Sentry if SENTRY_DSN is set: `docs/how-to/observe.md#errors-in-sentry`."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import sentry_sdk
from sentry_sdk.integrations.atexit import AtexitIntegration
from sentry_sdk.integrations.dedupe import DedupeIntegration
from sentry_sdk.integrations.logging import EventHandler

from simservice.telemetry.logs import IDS

# Everything else can contain texts of users, such as addresses, arguments of log lines and messages of exceptions.
FIELDS = ("event_id", "timestamp", "level", "platform", "logger", "release", "environment", "server_name", "sdk")
FRAME_FIELDS = ("filename", "function", "module", "lineno", "pre_context", "context_line", "post_context", "in_app")
FLUSH_SECONDS = 2


class SentryHandler(EventHandler):
    """Sends each line of the log that is an error, with its ids as tags, in a thread of its own."""

    def __init__(self, dsn: str, level: int | str = logging.ERROR) -> None:
        super().__init__(level)
        sentry_sdk.init(
            dsn,
            # Nothing is collected besides the lines of the log.
            default_integrations=False,
            auto_enabling_integrations=False,
            integrations=[AtexitIntegration(callback=lambda _pending, _timeout: None), DedupeIntegration()],
            include_local_variables=False,
            max_breadcrumbs=0,
            auto_session_tracking=False,
            send_client_reports=False,
            shutdown_timeout=FLUSH_SECONDS,
            before_send=_reduced,
        )


def _reduced(event: Any, hint: Mapping[str, Any]) -> Any:
    """Return an event with constants, code, ids and the names of classes only; None if it is not sent."""
    record = hint.get("log_record")
    if record is not None and record.name == "django.request" and not record.exc_info:
        # Django logs the status of each response. What went wrong was logged before.
        return None
    reduced = {name: event[name] for name in FIELDS if name in event}
    if record is not None:
        reduced["tags"] = {name: str(value) for name in IDS if (value := getattr(record, name, None)) is not None}
        # Without its arguments. Django logs the text of an exception about a suspicious request.
        is_user_text = record.name.startswith("django.security.")
        reduced["logentry"] = {"message": record.name if is_user_text else str(record.msg)}
    if "exception" in event:
        reduced["exception"] = {"values": [_exception(value) for value in event["exception"]["values"]]}
    return reduced


def _exception(value: Mapping[str, Any]) -> dict[str, Any]:
    frames: Iterable[Mapping[str, Any]] = (value.get("stacktrace") or {}).get("frames", [])
    return {
        "type": value.get("type"),
        "module": value.get("module"),
        "stacktrace": {
            "frames": [{name: frame[name] for name in FRAME_FIELDS if name in frame} for frame in frames]
        },
    }
