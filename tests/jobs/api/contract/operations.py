"""Handwritten schemas of all responses, by operation, and of the webhook."""

from tests.jobs.api.contract.account import GRANT, PERIOD, PLAN, SNAPSHOT
from tests.jobs.api.contract.builds import BUILD, BUILDS, JOB_BUILD
from tests.jobs.api.contract.jobs import (
    CANCELLATION,
    JOB_STATUS,
    LINKS,
    LISTED_JOB,
    PAGE,
    PAUSED,
    RESUMED,
    TERMINAL_CONDITIONS,
    job_fields,
    submitted,
)
from tests.jobs.api.contract.results import DETAILS, MISSING_ARTIFACT, SUMMARY, VERDICT, artifact
from tests.jobs.api.contract.types import (
    COUNT,
    DOWNLOAD,
    ERROR_CODE,
    ID,
    METADATA,
    TERMINAL,
    TEXT,
    TIME,
    Schema,
    an_object,
    many,
    matching,
    or_null,
)
from tests.jobs.api.contract.validation import REFUSAL, validation

MANIFEST_JOB = an_object(
    {"id": ID, "status": TERMINAL, "createdAt": TIME, "startedAt": or_null(TIME), "completedAt": TIME}
)


def responses(variant: str) -> dict[str, Schema]:
    """Return the schema of each operation's 200 response, by operation id."""
    job = job_fields(variant)
    result = an_object(
        {"summary": SUMMARY, "verdict": VERDICT, "artifacts": many(artifact(id=ID))},
        warnings=many(TEXT, 20) | {"minItems": 1},
        missingArtifacts=many(MISSING_ARTIFACT) | {"minItems": 1},
        details=DETAILS,
    )
    return {
        "submitJob": submitted(variant),
        "submitBatch": an_object(
            {"jobs": many(an_object({"job": or_null(submitted(variant)), "refusal": or_null(REFUSAL)}), 100)}
        ),
        "validateJob": validation(variant),
        "listJobs": an_object({"jobs": many(LISTED_JOB | TERMINAL_CONDITIONS, 100), "page": PAGE}),
        "getJob": an_object(job) | TERMINAL_CONDITIONS,
        "getJobStatus": JOB_STATUS,
        "getJobProfile": an_object({"text": TEXT}),
        "getJobResult": an_object(job | {"status": TERMINAL, "result": result}) | TERMINAL_CONDITIONS,
        "cancelJob": CANCELLATION,
        "pauseJob": PAUSED,
        "resumeJob": RESUMED,
        "replaceLinks": an_object({"success": {"const": True}, "id": ID, "links": LINKS, "metadata": METADATA}),
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
                "result": an_object({"summary": SUMMARY, "verdict": VERDICT}),
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


def webhook_body(variant: str) -> Schema:
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
