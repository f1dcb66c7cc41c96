"""What the API says about a job, in the contract's words (contract, sections 3 and 4)."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.utils import timezone

from jobs.forecast import estimated_start
from jobs.links import Links
from jobs.models import WAITING, Artifact, Build, Channel, Job, Priority
from jobs.progress import Progress
from jobs.submission import Accepted
from simservice.api.fields import iso, iso_or_none


def submission_response(accepted: Accepted, links: Links) -> dict[str, Any]:
    """Return the answer to an accepted submission; warnings are left out when there are none."""
    job = accepted.job
    answer = {
        "success": True,
        "id": str(job.pk),
        "runtime": {"ceiling": ceiling(job), "priorityFeeCredits": job.priority_fee_credits},
        "links": links.of(job),
        "metadata": job.metadata,
    }
    return answer | ({"warnings": accepted.warnings} if accepted.warnings else {})


def ceiling(job: Job) -> dict[str, int | None]:
    """Return what the job may use."""
    return {
        "maxCredits": job.ceiling_credits,
        "runtimeSeconds": job.ceiling_runtime_seconds,
        "queueSeconds": job.ceiling_queue_seconds,
    }


def job_object(job: Job, links: Links) -> dict[str, Any]:
    """Return the job object of `GET jobs/{id}`."""
    return {
        "id": str(job.pk),
        "status": job.status,
        "priority": Priority(job.priority).name.lower(),
        "createdAt": iso(job.created_at),
        "startedAt": iso_or_none(job.started_at),
        "completedAt": iso_or_none(job.completed_at),
        "cancelRequestedAt": iso_or_none(job.cancel_requested_at),
        "errorCode": job.error_code,
        "statusReason": job.status_reason,
        "simcExitCode": job.simulator_exit_code,
        "retentionDays": settings.RETENTION_DAYS,
        "metadata": job.metadata,
        "runtime": runtime(job),
        "retried": job.retried,
        "build": build_of(job),
        "links": links.of(job),
    }


def runtime(job: Job) -> dict[str, Any]:
    """Return what the job used, and what it may use. Durations in milliseconds; null while unknown."""
    total = None
    if job.started_at and job.completed_at:
        total = max(0, round((job.completed_at - job.started_at).total_seconds() * 1000))
    return {
        "simDurationMs": job.sim_duration_ms,
        "totalDurationMs": total,
        "creditsConsumed": job.credits_consumed,
        "priorityFeeCredits": job.priority_fee_credits,
        "creditsPerSecond": job.credits_per_second,
        "vcpus": job.vcpus,
        "ceiling": ceiling(job),
    }


def build_of(job: Job) -> dict[str, Any] | None:
    """Return the build a job ran on, null until one did."""
    build: Build | None = job.build
    if build is None:
        return None
    return {"id": str(build.pk), "channel": job.channel, "commit": build.commit, "ci": build.ci}


def status_object(job: Job, progress: Progress) -> dict[str, Any]:
    """Return the body of `GET jobs/{id}/status`."""
    return {
        "id": str(job.pk),
        "metadata": job.metadata,
        "status": job.status,
        "errorCode": job.error_code,
        "statusReason": job.status_reason,
        "simcExitCode": job.simulator_exit_code,
        "queue": queue_of(job),
        "progress": progress_object(progress),
        "logEntries": None,
        "startedAt": iso_or_none(job.started_at),
        "updatedAt": iso(job.updated_at),
        "retried": job.retried,
    }


def queue_of(job: Job) -> dict[str, Any] | None:
    """Return the job's wait, null once it started."""
    if job.status not in WAITING:
        return None
    estimate = estimated_start(job)
    return {
        "queuedAt": iso(job.created_at),
        "estimatedStartSeconds": estimate and estimate.seconds,
        "estimatedStartUpdatedAt": estimate and iso(estimate.updated_at),
    }


def progress_object(progress: Progress) -> dict[str, Any]:
    """Return how far a job is, in percent."""
    return asdict(progress)


def result_object(job: Job, artifacts: Sequence[Artifact], links: Links) -> dict[str, Any]:
    """Return the body of `GET jobs/{id}/result`."""
    listed = [{"id": str(artifact.pk), **artifact_object(artifact, links)} for artifact in artifacts]
    return {**job_object(job, links), "result": {"summary": job.summary, "artifacts": listed}}


def artifact_object(artifact: Artifact, links: Links) -> dict[str, Any]:
    """Return what the result and the manifest say of an artifact alike."""
    return {
        "kind": artifact.kind,
        "stage": artifact.stage,
        "url": links.artifact(artifact),
        "mimeType": artifact.mime_type,
        "bytes": artifact.bytes,
    }


def manifest(job: Job, artifacts: Sequence[Artifact], links: Links) -> dict[str, Any]:
    """Return the public manifest of an ended job: what the result says, without the character's gear."""
    return {
        "version": "v1",
        "job": {
            "id": str(job.pk),
            "status": job.status,
            "createdAt": iso(job.created_at),
            "startedAt": iso_or_none(job.started_at),
            "completedAt": iso_or_none(job.completed_at),
        },
        "build": build_of(job),
        "result": {"summary": without_gear(job.summary)},
        "artifacts": [{**artifact_object(a, links), "sha256": a.sha256} for a in artifacts],
    }


def without_gear(summary: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the summary as strangers may see it."""
    if not summary or not summary.get("mainActor"):
        return summary
    shown = {name: value for name, value in summary["mainActor"].items() if name != "gear"}
    return {**summary, "mainActor": shown}


def build_list(current: Sequence[tuple[Channel, Build]]) -> dict[str, Any]:
    """Return what each channel means on each branch."""
    listed = [{"channel": channel.value, **build_object(build)} for channel, build in current]
    return {"generatedAt": iso(timezone.now()), "builds": listed}


def build_object(build: Build) -> dict[str, Any]:
    """Return what there is to know about a build."""
    return {
        "gitBranch": build.git_branch,
        "repo": build.repo or None,
        "commit": build.commit,
        "simcVersion": build.simc_version,
        "gameData": game_data(build),
        "id": str(build.pk),
        "createdAt": iso(build.created_at),
        "ci": build.ci,
        "profiles": {"manifest": build.profiles} if build.profiles_path else None,
    }


def game_data(build: Build) -> dict[str, Any] | None:
    """Return which game data a build holds, null when its version line did not say."""
    if not build.wow_version:
        return None
    hotfix = build.hotfix_date and build.hotfix_date.isoformat()
    return {"live": {"version": build.wow_version, "hotfixDate": hotfix}, "ptr": None}
