"""Strict JSON Schemas of all successful responses, written by hand from `docs/reference/contract.md`.

Nothing here comes from the service's own types, so document and responses cannot be wrong together.
"""

from tests.jobs.api.result_schemas import BUILD, BUILDS, JOB_BUILD, MISSING_ARTIFACT, SUMMARY, artifact
from tests.jobs.api.schemas import (
    BOOLEAN,
    COUNT,
    DOCS,
    DOWNLOAD,
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

# Jobs
LINKS = an_object({"share": SHARE}, manifest=MANIFEST_URL)


def ceiling(variant: str) -> Schema:
    credits = COUNT if variant == "C" else NULL  # noqa: A001 - the contract's word
    return an_object({"maxCredits": credits, "runtimeSeconds": COUNT, "queueSeconds": POSITIVE})


def when(condition: dict[str, Schema], then: dict[str, Schema], otherwise: dict[str, Schema]) -> Schema:
    """Return a schema for fields that depend on other fields."""
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
        "errorCode": ERROR_CODE,
        "statusReason": or_null(TEXT),
        "simcExitCode": or_null(TEXT),
        "retentionDays": POSITIVE,
        "metadata": METADATA,
        "runtime": an_object(runtime),
        "retried": BOOLEAN,
        "build": or_null(JOB_BUILD),
        "links": LINKS,
    }


ENDED_OR_NOT = when(
    {"status": TERMINAL},
    {"completedAt": TIME, "links": {"required": ["manifest"]}},
    {"completedAt": NULL, "links": {"maxProperties": 1}, "errorCode": NULL},
)


def submitted(variant: str) -> Schema:
    warning = an_object(
        {
            "kind": one_of("iterations_clamped", "target_error_floored"),
            "line": POSITIVE,
            "requested": {"type": ["number", "string"]},
            "applied": NUMBER,
            "message": TEXT,
        }
    )
    deprecation = an_object({"field": TEXT, "message": TEXT, "docsUrl": DOCS})
    listed = {"deprecations": many(deprecation) | {"minItems": 1}} if variant == "C" else {}
    return an_object(
        {
            "success": TRUE,
            "id": ID,
            "runtime": an_object({"ceiling": ceiling(variant), "priorityFeeCredits": COUNT}),
            "links": an_object({"share": SHARE}),
            "metadata": METADATA,
        },
        warnings=many(warning) | {"minItems": 1},
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
        "logEntries": or_null(many(LOG_ENTRY, 200)),
        "startedAt": or_null(TIME),
        "updatedAt": TIME,
        "retried": BOOLEAN,
    }
) | when({"status": WAITING}, {"queue": QUEUE, "logEntries": NULL}, {"queue": NULL})
CANCELLED = {"success": TRUE, "id": ID, "metadata": METADATA}
CANCELLATION = {
    "oneOf": [
        an_object(CANCELLED | {"status": one_of("cancelled")}),
        an_object(CANCELLED | {"status": one_of("cancel_requested"), "cancelRequestedAt": TIME}),
    ]
}

# The account
PLAN = an_object(
    {
        "maxActiveJobs": COUNT,
        "maxCreditsPerJob": COUNT,
        "defaultCreditsPerJob": or_null(COUNT),
        "maxRuntimeSeconds": COUNT,
        "defaultRuntimeSeconds": or_null(COUNT),
        "maxQueueSeconds": COUNT,
        "defaultQueueSeconds": COUNT,
        "creditsPerSecond": POSITIVE,
        "vcpuPerJob": POSITIVE,
        "maxSimcVariants": COUNT,
        "pool": one_of("standard", "warm", "dedicated"),
        "priorityFeeCredits": an_object({"high": COUNT}),
    }
)
PERIOD = an_object(
    {
        "start": TIME,
        "end": TIME,
        "simsRun": COUNT,
        "avgRuntimeSeconds": or_null(NUMBER),
        "readsUsed": or_null(COUNT),
        "readsLimit": COUNT,
        "readsCapResetAt": or_null(TIME),
    }
)
SNAPSHOT = an_object({"activeJobs": COUNT, "queuedJobs": COUNT, "runningJobs": COUNT})
GRANT = an_object(
    {
        "id": ID,
        "reason": one_of(
            "grant_developer_allowance",
            "grant_beta",
            "grant_promo",
            "grant_onboarding",
            "onboarding",
            "allowance",
            "promo",
        ),
        "note": or_null(matching("(?s:.+)")),
        "remaining": COUNT,
        "original": COUNT,
        "expiresAt": or_null(TIME),
    }
)
MANIFEST_JOB = an_object(
    {"id": ID, "status": TERMINAL, "createdAt": TIME, "startedAt": or_null(TIME), "completedAt": TIME}
)


def answers(variant: str) -> dict[str, Schema]:
    """Return the schema of each operation's success response, by operation id."""
    job = job_fields(variant)
    result = an_object(
        {"summary": SUMMARY, "artifacts": many(artifact(id=ID))},
        missingArtifacts=many(MISSING_ARTIFACT) | {"minItems": 1},
    )
    return {
        "submitJob": submitted(variant),
        "listJobs": an_object({"jobs": many(LISTED_JOB | ENDED_OR_NOT, 100), "page": PAGE}),
        "getJob": an_object(job) | ENDED_OR_NOT,
        "getJobStatus": JOB_STATUS,
        "getJobProfile": an_object({"text": TEXT}),
        "getJobResult": an_object(job | {"status": TERMINAL, "result": result}) | ENDED_OR_NOT,
        "cancelJob": CANCELLATION,
        "getArtifactUrl": an_object({"url": DOWNLOAD}),
        "listBuilds": BUILDS,
        "getBuild": BUILD,
        "getUsage": an_object({"period": PERIOD, "snapshot": SNAPSHOT, "plan": PLAN, "limits": PLAN}),
        "getCredits": an_object({"purchased": COUNT, "reserved": COUNT, "grants": many(GRANT)}),
        "getManifest": an_object(
            {
                "version": {"const": "v1"},
                "job": MANIFEST_JOB,
                "build": or_null(JOB_BUILD),
                "result": an_object({"summary": SUMMARY}),
                "artifacts": many(artifact(sha256=matching("[0-9a-f]{64}"))),
            }
        ),
        "getHealth": an_object({"status": {"const": "ok"}}),
        "getOpenApi": {
            "type": "object",
            "properties": {"openapi": matching(r"3\.1\.[0-9]+")},
            "required": ["openapi", "info", "paths", "components", "webhooks"],
        },
    }


def webhook(variant: str) -> Schema:
    """Return the schema of a webhook's body."""
    payload: dict[str, Schema] = {"id": ID, "status": TERMINAL, "statusReason": or_null(TEXT)}
    code = {"errorCode": ERROR_CODE} if variant == "C" else {}
    return an_object(
        {
            "kind": {"const": "job.terminal"},
            "version": {"const": "v1"},
            "timestamp": TIME,
            "payload": an_object(payload | code),
        }
    )
