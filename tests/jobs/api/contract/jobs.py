"""Handwritten schemas of jobs."""

from tests.jobs.api.contract.builds import JOB_BUILD
from tests.jobs.api.contract.types import (
    BOOLEAN,
    COUNT,
    DOCS,
    ERROR_CODE,
    ID,
    LABEL,
    MANIFEST_URL,
    METADATA,
    NULL,
    NUMBER,
    PERCENT,
    POSITIVE,
    PRIORITY,
    SHARE,
    STATUS,
    TERMINAL,
    TEXT,
    TIME,
    TRUE,
    UUID,
    WAITING,
    Schema,
    an_object,
    many,
    matching,
    one_of,
    or_null,
)

LINKS = an_object({"share": SHARE}, manifest=MANIFEST_URL)


def ceiling(variant: str) -> Schema:
    credits = COUNT if variant == "C" else NULL  # noqa: A001 - the name in the contract
    return an_object({"maxCredits": credits, "runtimeSeconds": COUNT, "queueSeconds": POSITIVE})


def when(condition: dict[str, Schema], then: dict[str, Schema], otherwise: dict[str, Schema]) -> Schema:
    """Return a condition: the schemas of some fields if others match, and if they do not."""
    return {
        "if": {"properties": condition},
        "then": {"properties": then},
        "else": {"properties": otherwise},
    }


def job_fields(variant: str) -> dict[str, Schema]:
    runtime = {
        "simDurationMs": or_null(COUNT),
        "totalDurationMs": or_null(COUNT),
        "creditsConsumed": or_null(COUNT),
        "priorityFeeCredits": COUNT,
        "creditsPerSecond": POSITIVE,
        "vcpus": POSITIVE,
        "slotsUsed": or_null(POSITIVE),
        "ceiling": ceiling(variant),
    }
    return {
        "id": ID,
        "status": STATUS,
        "priority": PRIORITY,
        "createdAt": TIME,
        "startedAt": or_null(TIME),
        "completedAt": or_null(TIME),
        "cancelRequestedAt": or_null(TIME),
        "pausedAt": or_null(TIME),
        "errorCode": ERROR_CODE,
        "statusReason": or_null(TEXT),
        "simcExitCode": or_null(TEXT),
        "retentionDays": POSITIVE,
        "metadata": METADATA,
        "title": TEXT,
        "runtime": an_object(runtime),
        "retried": BOOLEAN,
        "build": or_null(JOB_BUILD),
        "links": LINKS,
    }


TERMINAL_CONDITIONS = when(
    {"status": TERMINAL},
    {"completedAt": TIME, "links": {"required": ["manifest"]}},
    {"completedAt": NULL, "links": {"maxProperties": 1}, "errorCode": NULL},
)


WARNING = an_object(
    {
        "kind": one_of(
            "iterations_clamped",
            "target_error_floored",
            "option_replaced",
            "actor_unknown",
            "html_report_unavailable",
        ),
        "line": or_null(POSITIVE),
        "requested": {"type": ["number", "string", "null"]},
        "applied": or_null(NUMBER),
        "message": TEXT,
    }
)
DEPRECATION = an_object({"field": TEXT, "message": TEXT, "docsUrl": DOCS})


def submitted(variant: str) -> Schema:
    listed = {"deprecations": many(DEPRECATION) | {"minItems": 1}} if variant == "C" else {}
    return an_object(
        {
            "success": TRUE,
            "id": ID,
            "runtime": an_object({"ceiling": ceiling(variant), "priorityFeeCredits": COUNT}),
            "links": an_object({"share": SHARE}),
            "metadata": METADATA,
        },
        warnings=many(WARNING) | {"minItems": 1},
        **listed,
    )


LISTED_JOB = an_object(
    {
        "id": ID,
        "status": STATUS,
        "createdAt": TIME,
        "completedAt": or_null(TIME),
        "errorCode": ERROR_CODE,
        "metadata": METADATA,
        "title": TEXT,
        "buildId": or_null(UUID),
        "links": LINKS,
    }
)
PAGE = an_object(
    {"limit": POSITIVE | {"maximum": 100}, "hasMore": BOOLEAN, "nextCursor": or_null(matching(".+")), "since": TIME}
)
QUEUE = an_object(
    {"queuedAt": TIME, "estimatedStartSeconds": or_null(COUNT), "estimatedStartUpdatedAt": or_null(TIME)}
)
STAGE = an_object({"current": POSITIVE, "total": POSITIVE, "label": LABEL, "percent": PERCENT})
LOG_ENTRY = an_object({"source": one_of("stdout", "stderr"), "message": TEXT, "ts": COUNT})
PREVIEW_FIGURES = {"mean": NUMBER, "mean_error": NUMBER}
PREVIEW = an_object(
    {
        "updatedAt": TIME,
        "secondsLeft": or_null(COUNT),
        "baseline": or_null(an_object(PREVIEW_FIGURES)),
        "profilesets": an_object(
            {
                "finished": COUNT,
                "count": COUNT,
                "results": many(an_object(PREVIEW_FIGURES | {"name": TEXT, "stage": POSITIVE}), 50),
            }
        ),
    }
)
JOB_STATUS = an_object(
    {
        "id": ID,
        "metadata": METADATA,
        "status": STATUS,
        "errorCode": ERROR_CODE,
        "statusReason": or_null(TEXT),
        "simcExitCode": or_null(TEXT),
        "queue": or_null(QUEUE),
        "progress": an_object({"percent": PERCENT, "stage": or_null(STAGE)}),
        "pollAfterSeconds": or_null({"type": "integer", "minimum": 1, "maximum": 30}),
        "logEntries": or_null(many(LOG_ENTRY, 200)),
        "startedAt": or_null(TIME),
        "pausedAt": or_null(TIME),
        "updatedAt": TIME,
        "retried": BOOLEAN,
    },
    preview=or_null(PREVIEW),
) | when({"status": WAITING}, {"queue": QUEUE, "logEntries": NULL}, {"queue": NULL})
PAUSED = an_object(
    {
        "success": TRUE,
        "id": ID,
        "status": one_of("paused", "pause_requested"),
        "pausedAt": or_null(TIME),
        "metadata": METADATA,
    }
) | when({"status": one_of("paused")}, {"pausedAt": TIME}, {"pausedAt": NULL})
RESUMED = an_object(
    {"success": TRUE, "id": ID, "status": one_of("pending", "queued", "running"), "metadata": METADATA}
)
CANCELLED = {"success": TRUE, "id": ID, "metadata": METADATA}
CANCELLATION = {
    "oneOf": [
        an_object(CANCELLED | {"status": one_of("cancelled")}),
        an_object(CANCELLED | {"status": one_of("cancel_requested"), "cancelRequestedAt": TIME}),
    ]
}
