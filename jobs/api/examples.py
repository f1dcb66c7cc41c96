"""One job, told in every form of the API: the examples of the documentation."""

from typing import Any

from billing.models import Pool
from jobs import variants
from jobs.api import shapes
from jobs.enums import Channel, PublicStatus
from jobs.models import Artifact

HOST = "https://sim.example.com"
VARIANT = variants.current()
JOB_ID = "176352841234500042"
ARTIFACT_ID = "176352842345600043"
BUILD_ID = "0b8f6a52-6f3b-4a7e-9d55-2f3f6c1b7a10"
TOKEN = "q7VvT0m1xk2bY9d4sLwJ3A"  # noqa: S105 - an example
CURSOR = "MTc2MzUyODQxMjM0NTAwMDQy.c2lnbmF0dXJl"
CREATED, STARTED, ENDED = "2026-11-20T08:10:00.123Z", "2026-11-20T08:10:02.456Z", "2026-11-20T08:10:14.789Z"
PROFILE = 'mage="Example"\nlevel=80\nspec=frost\niterations=1000\n'
CAP = {"maxCredits": 3200, "maxRuntimeSeconds": 100}
METADATA = {"character": "Example"}
LINKS: shapes.Links = {"share": f"{HOST}/share/{TOKEN}", "manifest": f"{HOST}/manifests/{TOKEN}"}
CHECKS: shapes.Checks = {
    "status": "partial",
    "checks": {"total": 172, "passed": 171, "failed": 1},
    "failures": ["Example_Mage_Frost.simc"],
    "gatedOn": [],
    "retrievedAt": "2026-11-20T04:02:00.000Z",
}
JOB_CHECKS: shapes.JobChecks = {"status": "partial", "failed": 1}

CREDENTIAL = "0123456789abcdef"
QUERY: dict[str, Any] = {
    "channel": "latest",
    "gitBranch": "midnight",
    "buildId": BUILD_ID,
    "priority": "standard",
    "multiStage": False,
    **CAP,
    "maxQueueSeconds": 600,
    "webhookEvents": ["job.terminal"],
    "artifactsHtml": True,
    "artifactsCsv": True,
    "artifactsJsonVersion": "2",
}
SUBMISSION_SMALL: dict[str, Any] = {"build": {"channel": "latest"}, "profile": {"text": PROFILE}}
SUBMISSION_FULL: dict[str, Any] = {
    "build": {"channel": "weekly", "gitBranch": "midnight"},
    "profile": {"text": PROFILE},
    "runtime": {"multiStage": False, VARIANT.cap_field: CAP[VARIANT.cap_field], "maxQueueSeconds": 600},
    "priority": "high",
    "metadata": METADATA,
    "artifacts": {"html": True, "csv": True, "json": {"version": "2"}},
}

CEILING: shapes.Ceiling = {
    "maxCredits": 3200 if VARIANT.tells_credit_ceiling else None,
    "runtimeSeconds": 100,
    "queueSeconds": 1800,
}
SUBMITTED: shapes.Submitted = {
    "success": True,
    "id": JOB_ID,
    "runtime": {"ceiling": CEILING, "priorityFeeCredits": 0},
    "links": {"share": f"{HOST}/share/{TOKEN}"},
    "metadata": METADATA,
    "warnings": [
        {
            "kind": "iterations_clamped",
            "line": 4,
            "requested": 1000000,
            "applied": 250000,
            "message": "iterations=1000000 is beyond the platform's limit; the job runs at 250000.",
        }
    ],
}
RAN_ON: shapes.JobBuild = {"id": BUILD_ID, "channel": Channel.LATEST, "commit": "4f1d0c2", "ci": JOB_CHECKS}
JOB: shapes.Job = {
    "id": JOB_ID,
    "status": PublicStatus.COMPLETED,
    "priority": "standard",
    "createdAt": CREATED,
    "startedAt": STARTED,
    "completedAt": ENDED,
    "cancelRequestedAt": None,
    "errorCode": None,
    "statusReason": None,
    "simcExitCode": "0",
    "retentionDays": 30,
    "metadata": METADATA,
    "runtime": {
        "simDurationMs": 11870,
        "totalDurationMs": 12333,
        "creditsConsumed": 384,
        "priorityFeeCredits": 0,
        "creditsPerSecond": 32,
        "vcpus": 2,
        "ceiling": CEILING,
    },
    "retried": False,
    "build": RAN_ON,
    "links": LINKS,
}
JOB_LIST: shapes.JobList = {
    "jobs": [
        {
            "id": JOB_ID,
            "status": PublicStatus.COMPLETED,
            "createdAt": CREATED,
            "completedAt": ENDED,
            "errorCode": None,
            "metadata": METADATA,
            "buildId": BUILD_ID,
            "links": LINKS,
        }
    ],
    "page": {"limit": 25, "hasMore": True, "nextCursor": CURSOR, "since": "2026-10-21T08:15:00.000Z"},
}
STATUS: shapes.JobStatus = {
    "id": JOB_ID,
    "metadata": METADATA,
    "status": PublicStatus.RUNNING,
    "errorCode": None,
    "statusReason": None,
    "simcExitCode": None,
    "queue": None,
    "progress": {
        "percent": 42.5,
        "stage": {"current": 1, "total": 1, "label": "initial", "percent": 42.5},
    },
    "logEntries": [{"source": "stdout", "message": "Generating Baseline", "ts": 1795162203000}],
    "startedAt": STARTED,
    "updatedAt": "2026-11-20T08:10:07.001Z",
    "retried": False,
}
FIGURES: shapes.Figures = {
    "mean": 1523400.5,
    "mean_error": 1176.0,
    "mean_stddev": 600.0,
    "stddev": 18973.7,
    "min": 1468002.1,
    "max": 1590311.8,
}
ITEM: shapes.Item = {"slot": "head", "name": "Example Hood", "id": 212000, "ilevel": 600, "bonusIds": [1, 2]}
PROFILESET: shapes.ProfilesetFigures = {"name": "Other hood", **FIGURES, "stage": 1}
ACTOR: shapes.MainActor = {
    "name": "Example",
    **FIGURES,
    "profilesets": {"count": 1, "results": [PROFILESET]},
    "talents": "CAEAAAAAAAAAAAAAAAAAAAAAAYGjZGmxMzMzMDAA",
    "gear": [ITEM],
}
ANOTHER: shapes.ActorFigures = {"name": "Another", **FIGURES}
STAGED: shapes.Summary = {
    "metric": "dps",
    "mainActor": ACTOR,
    "multiStage": {
        "enabled": True,
        "reason": "eligible_profileset_only",
        "stages": [
            {"stage": 1, "label": "initial", "profilesets": 60, "culled": 48},
            {"stage": 2, "label": "intermediate", "profilesets": 12, "culled": 9},
            {"stage": 3, "label": "final", "profilesets": 3, "culled": 0},
        ],
    },
}
SEVERAL: shapes.Summary = {
    "metric": "dps",
    "mainActor": None,
    "multiStage": {"enabled": False, "reason": "disabled_by_option", "stages": []},
    "actors": {"count": 2, "results": [ANOTHER, {**ANOTHER, "name": "A third"}]},
    "iterations": 1000,
}
FILE: shapes.ArtifactFile = {
    "kind": Artifact.Kind.JSON_REPORT,
    "name": "stage-3-report.json",
    "stage": 3,
    "url": f"{HOST}/artifacts/{TOKEN}",
    "mimeType": "application/json",
    "bytes": 184320,
}
RESULT: shapes.JobResult = {
    **JOB,
    "result": {"summary": STAGED, "artifacts": [{"id": ARTIFACT_ID, **FILE}]},
}
CANCELLATION: shapes.Cancellation = {
    "success": True,
    "id": JOB_ID,
    "status": "cancel_requested",
    "cancelRequestedAt": "2026-11-20T08:10:05.000Z",
    "metadata": METADATA,
}
ARTIFACT_URL: shapes.ArtifactUrl = {"url": FILE["url"]}
BUILD: shapes.Build = {
    "gitBranch": "midnight",
    "repo": "https://github.com/simulationcraft/simc",
    "commit": "4f1d0c2",
    "simcVersion": "1200-01",
    "gameData": {"live": {"version": "12.0.0.64000", "hotfixDate": "2026-11-18"}, "ptr": None},
    "id": BUILD_ID,
    "createdAt": "2026-11-20T04:00:00.000Z",
    "ci": CHECKS,
    "profiles": {"manifest": ["frost_mage.simc"], "includable": ["apls/mage.simc", "frost_mage.simc"]},
}
BUILDS: shapes.BuildList = {"generatedAt": CREATED, "builds": [{"channel": Channel.LATEST, **BUILD}]}
PLAN: shapes.PlanLimits = {
    "maxActiveJobs": 200,
    "maxCreditsPerJob": 57600,
    "defaultCreditsPerJob": None,
    "maxRuntimeSeconds": 1800,
    "defaultRuntimeSeconds": VARIANT.default_runtime_seconds,
    "maxQueueSeconds": 86400,
    "defaultQueueSeconds": 1800,
    "creditsPerSecond": 32,
    "vcpuPerJob": 2,
    "maxSimcVariants": 10000,
    "pool": Pool.STANDARD,
    "priorityFeeCredits": {"high": 320},
}
USAGE: shapes.Usage = {
    "period": {
        "start": "2026-11-01T00:00:00.000Z",
        "end": "2026-12-01T00:00:00.000Z",
        "simsRun": 120,
        "avgRuntimeSeconds": 12.4,
        "readsUsed": 7,
        "readsLimit": 6000,
        "readsCapResetAt": "2026-11-20T08:11:00.000Z",
    },
    "snapshot": {"activeJobs": 1, "queuedJobs": 0, "runningJobs": 1},
    "plan": PLAN,
    "limits": PLAN,
}
MANIFEST: shapes.Manifest = {
    "version": "v1",
    "job": {
        "id": JOB_ID,
        "status": PublicStatus.COMPLETED,
        "createdAt": CREATED,
        "startedAt": STARTED,
        "completedAt": ENDED,
    },
    "build": RAN_ON,
    "result": {"summary": SEVERAL},
    "artifacts": [{**FILE, "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}],
}
TERMINAL: shapes.TerminalPayload = {"id": JOB_ID, "status": "completed", "statusReason": None}
if VARIANT.webhook_has_error_code:
    TERMINAL["errorCode"] = None
TERMINAL_EVENT: shapes.TerminalEvent = {
    "kind": "job.terminal",
    "version": "v1",
    "timestamp": ENDED,
    "payload": TERMINAL,
}
