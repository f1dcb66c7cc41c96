"""Strict JSON Schemas of all responses, written by hand from `docs/reference/contract.md`.

Nothing here comes from the service's own types, so document and responses cannot be wrong together.
"""

from typing import Any

from jsonschema import Draft202012Validator, FormatChecker, validators

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
TRUE: Schema = {"const": True}
COUNT: Schema = {"type": "integer", "minimum": 0}
POSITIVE: Schema = {"type": "integer", "minimum": 1}
NUMBER: Schema = {"type": "number"}
PERCENT: Schema = {"type": "number", "minimum": 0, "maximum": 100}
NULL: Schema = {"type": "null"}


def matching(pattern: str) -> Schema:
    """Return the schema of a string that matches a pattern completely."""
    return {"type": "string", "pattern": rf"\A(?:{pattern})\Z"}


def one_of(*values: str) -> Schema:
    return {"enum": list(values)}


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, NULL]}


def many(schema: Schema, most: int | None = None) -> Schema:
    return {"type": "array", "items": schema} | ({"maxItems": most} if most else {})


def an_object(fields: dict[str, Schema], **optional: Schema) -> Schema:
    """Return the schema of an object with exactly these required and optional fields."""
    return {
        "type": "object",
        "properties": fields | optional,
        "required": list(fields),
        "additionalProperties": False,
    }


ID = matching("[0-9]{18}")
UUID = matching("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = matching(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
DATE = matching("[0-9]{4}-[0-9]{2}-[0-9]{2}")
REQUEST_ID = matching("req_[0-9a-f]{32}")
SHARE = matching("https?://[^/]+/share/[A-Za-z0-9_-]{22}")
MANIFEST_URL = matching("https?://[^/]+/manifests/[A-Za-z0-9_-]{22}")
DOWNLOAD = matching("https?://[^/]+/artifacts/[A-Za-z0-9_-]{22}")
DOCS = matching("https?://[^/]+/docs#[a-z_]+")
METADATA: Schema = {
    "type": "object",
    "additionalProperties": {"type": "string", "maxLength": 500},
    "maxProperties": 20,
}

STATUS = one_of("pending", "queued", "running", "completed", "failed", "cancelled", "timed_out")
TERMINAL = one_of("completed", "failed", "cancelled", "timed_out")
UNFINISHED = one_of("pending", "queued", "running")
WAITING = one_of("pending", "queued")
CHANNEL = one_of("nightly", "weekly", "latest")
PRIORITY = one_of("high", "standard", "background")
LABEL = one_of("initial", "intermediate", "final")
ERROR_CODE = {
    "enum": [
        None, "queue_timeout", "user_cancelled", "execution_timeout", "max_credits_reached", "insufficient_credits",
        "simulation_error", "execution_failed", "input_invalid", "build_unavailable", "execution_interrupted",
        "internal",
    ]
}  # fmt: skip

# Builds
CI_STATUS = one_of("pass", "partial", "fail", "unknown")
CI = an_object(
    {
        "status": CI_STATUS,
        "checks": an_object({"total": COUNT, "passed": COUNT, "failed": COUNT}),
        "failures": many(TEXT),
        "gatedOn": many(TEXT),
        "retrievedAt": TIME,
    }
)
JOB_BUILD = an_object(
    {
        "id": UUID,
        "channel": CHANNEL,
        "commit": TEXT,
        "ci": or_null(an_object({"status": CI_STATUS, "failed": COUNT})),
    }
)
GAME = an_object({"version": matching(".+"), "hotfixDate": DATE})
BUILD_FIELDS = {
    "gitBranch": TEXT,
    "repo": TEXT,
    "commit": TEXT,
    "simcVersion": TEXT,
    "gameData": or_null(an_object({"live": GAME, "ptr": or_null(GAME)})),
    "id": UUID,
    "createdAt": TIME,
    "ci": or_null(CI),
    "profiles": or_null(an_object({"manifest": many(TEXT), "includable": many(TEXT)})),
}
BUILD = an_object(BUILD_FIELDS)
BUILDS = an_object({"generatedAt": TIME, "builds": many(an_object({"channel": CHANNEL} | BUILD_FIELDS))})

# Results
FIGURES = dict.fromkeys(("mean", "mean_error", "mean_stddev", "stddev", "min", "max"), NUMBER)
RANKED = an_object({"name": TEXT} | FIGURES)
ITEM = an_object(
    {"slot": TEXT, "name": TEXT},
    id=COUNT,
    ilevel=COUNT,
    bonusIds=many(COUNT),
    gemIds=many(COUNT),
    enchantId=COUNT,
)
MAIN_ACTOR = an_object(
    {"name": TEXT} | FIGURES,
    profilesets=an_object(
        {"count": COUNT, "results": many(an_object({"name": TEXT, "stage": POSITIVE} | FIGURES), 200)}
    ),
    talents=TEXT,
    gear=many(ITEM),
)
MULTI_STAGE = an_object(
    {
        "enabled": BOOLEAN,
        "reason": one_of(
            "eligible_profileset_only",
            "disabled_by_option",
            "no_variants_in_input",
            "no_profileset_candidates",
            "below_min_candidates",
            "unsupported_copy_set_only",
            "unsupported_mixed_profileset_copy_set",
            "unsupported_multi_actor",
            "unsupported_stage_sensitive_directive",
        ),
        "stages": many(
            an_object({"stage": POSITIVE, "label": LABEL, "profilesets": COUNT, "culled": COUNT}),
            3,
        ),
    }
)
SUMMARY = or_null(
    an_object(
        {"metric": one_of("dps", "raid_dps"), "mainActor": or_null(MAIN_ACTOR), "multiStage": MULTI_STAGE},
        actors=an_object({"count": COUNT, "results": many(RANKED, 200)}),
        iterations=COUNT,
        partial=TRUE,
        not_reached=an_object({"actors": COUNT, "profilesets": COUNT}),
        warnings=many({"type": "string", "minLength": 1, "maxLength": 500}, 20)
        | {"minItems": 1, "uniqueItems": True},
    )
)
FILES = (
    ("json_report", "report.json", "application/json"),
    ("html_report", "report.html", "text/html"),
    ("csv_report", "result.csv", "text/csv"),
    ("input", "input.simc", "text/plain"),
    ("stdout_log", "stdout.log", "text/plain"),
    ("stderr_log", "stderr.log", "text/plain"),
)


def artifact(**further: Schema) -> Schema:
    """Return the schema of an artifact, whose name and type follow from kind and stage."""
    common = {"url": DOWNLOAD, "bytes": COUNT} | further
    kinds = []
    for kind, name, media_type in FILES:
        same = common | {"kind": {"const": kind}, "mimeType": {"const": media_type}}
        kinds.append(an_object(same | {"name": {"const": name}, "stage": NULL}))
        staged = {"name": matching("stage-[1-3]-" + name.replace(".", r"\.")), "stage": POSITIVE}
        kinds.append(an_object(same | staged))
    return {"oneOf": kinds}


MISSING_ARTIFACT = an_object(
    {
        "kind": one_of(*(kind for kind, _, _ in FILES)),
        "name": matching("(stage-[1-3]-)?(" + "|".join(name.replace(".", r"\.") for _, name, _ in FILES) + ")"),
        "stage": or_null(POSITIVE),
        "reason": matching(".+"),
    }
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


# Errors
def reason(code: str) -> dict[str, Schema]:
    return {"reason": {"const": code}}


BLOCKED_TEXT = {"type": "string", "maxLength": 200}
BLOCKED = {
    "message": TEXT,
    "docsUrl": DOCS,
    "blocked": many(an_object({"line": POSITIVE, "text": BLOCKED_TEXT}), 20),
    "blockedCount": COUNT,
    "blockedTruncated": BOOLEAN,
}
PIN = BLOCKED | {"buildId": UUID, "maxPinAgeDays": {"const": 30}}
METAS: dict[str, Schema] = {
    "validation_failed": an_object({"issues": many(an_object({"path": TEXT, "message": TEXT}))}),
    "insufficient_credits_liability": an_object(
        {
            "reason": TEXT,
            "ceilingMaxCredits": COUNT,
            "maxAffordableCredits": COUNT,
            "ceilingRuntimeSeconds": COUNT,
            "maxAffordableRuntimeSeconds": COUNT,
            "requiredCredits": COUNT,
            "docsUrl": DOCS,
        },
        priorityFeeCredits=COUNT,
    ),
    "idempotency_key_reuse": an_object({"reason": TEXT, "originalJobId": ID, "docsUrl": DOCS}),
    "result_not_ready": an_object({"status": UNFINISHED}),
    "job_not_cancellable": an_object({"id": ID, "status": one_of("completed", "failed", "timed_out")}),
    "input_sanitized_rejected": an_object(reason("input_sanitized_rejected") | BLOCKED),
    "too_many_variants": an_object(
        reason("too_many_variants")
        | BLOCKED
        | {"totalVariants": COUNT, "maxVariants": COUNT, "upgradeUrl": or_null(TEXT)}
    ),
    "build_pin_not_allowed": an_object(reason("build_pin_not_allowed") | PIN),
    "build_pin_unavailable": an_object(reason("build_pin_unavailable") | PIN),
    "result_unavailable": an_object(reason("result_unavailable") | {"status": TERMINAL}),
    "rate_limit_exceeded": an_object(
        {"scope": one_of("developer", "address"), "limit": one_of("submissions", "bytes", "reads", "public")}
    ),
    "max_active_jobs_exceeded": an_object({"reason": TEXT, "maxActiveJobs": COUNT, "activeJobs": COUNT}),
    "queue_unavailable": an_object({"reason": TEXT, "queueHealth": TEXT}),
    "secret_store_unavailable": an_object({"reason": TEXT}),
    "api_maintenance": an_object({"retryAfterSeconds": COUNT}),
}
CODES = {
    400: {"validation_failed", "webhook_not_configured", "invalid_cursor", "invalid_json"},
    401: {"missing_token", "invalid_token", "revoked_token", "expired_token"},
    402: {"insufficient_credits_liability", "inactive_entitlement"},
    404: {"not_found"},
    405: {"method_not_allowed"},
    409: {"idempotency_key_reuse", "result_not_ready", "job_not_cancellable"},
    410: {"artifact_expired"},
    413: {"profile_too_large", "request_too_large"},
    415: {"unsupported_media_type"},
    422: {
        "input_sanitized_rejected",
        "too_many_variants",
        "build_pin_not_allowed",
        "build_pin_unavailable",
        "result_unavailable",
    },
    429: {"rate_limit_exceeded", "max_active_jobs_exceeded"},
    500: {"internal_error"},
    503: {"queue_unavailable", "secret_store_unavailable", "api_maintenance"},
}


def error(status: int, code: str) -> Schema:
    """Return the schema of an error's envelope. Raises KeyError if the status does not have the code."""
    if code not in CODES[status]:
        raise KeyError(f"{status} {code}")
    raised = {"priorityFeeCredits": COUNT} if code == "insufficient_credits_liability" else {}
    meta = METAS.get(code, NULL)
    return an_object(
        {"error": matching(".+"), "code": {"const": code}, "meta": meta, "requestId": REQUEST_ID}, **raised
    )


def is_integer(_: Any, value: Any) -> bool:
    """Return whether a value is an integer; JSON Schema itself accepts 1.0 too."""
    return isinstance(value, int) and not isinstance(value, bool)


Strict = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", is_integer)
)


def check(value: Any, schema: Schema) -> None:
    """Raise jsonschema.ValidationError unless a value matches a schema."""
    Strict.check_schema(schema)
    Strict(schema, format_checker=FormatChecker()).validate(value)
