"""What the API says about a job, in the contract's words (contract, sections 3 and 4)."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import cast

from django.conf import settings
from django.utils import timezone

from jobs.api import shapes
from jobs.links import Links
from jobs.models import WAITING, Artifact, Build, Channel, Job, Priority, Status
from jobs.progress import Progress
from jobs.submission import Accepted
from simservice.api.fields import iso, iso_or_none

PRIORITY_NAMES: dict[int, shapes.PriorityName] = {
    Priority.HIGH: "high",
    Priority.STANDARD: "standard",
    Priority.BACKGROUND: "background",
}


def submission_response(accepted: Accepted, links: Links) -> shapes.Submitted:
    """Return the answer to an accepted submission; warnings are left out when there are none."""
    job = accepted.job
    answer: shapes.Submitted = {
        "success": True,
        "id": str(job.pk),
        "runtime": {"ceiling": ceiling(job), "priorityFeeCredits": job.priority_fee_credits},
        "links": links.of(job),
        "metadata": job.metadata,
    }
    if accepted.warnings:
        answer["warnings"] = cast(list[shapes.Warning], accepted.warnings)
    return answer


def ceiling(job: Job) -> shapes.Ceiling:
    """Return what the job may use."""
    return {
        "maxCredits": job.ceiling_credits,
        "runtimeSeconds": job.ceiling_runtime_seconds,
        "queueSeconds": job.ceiling_queue_seconds,
    }


def job_object(job: Job, links: Links) -> shapes.Job:
    """Return the job object of `GET jobs/{id}`."""
    return {
        "id": str(job.pk),
        "status": Status(job.status),
        "priority": PRIORITY_NAMES[job.priority],
        "createdAt": iso(job.created_at),
        "startedAt": iso_or_none(job.started_at),
        "completedAt": iso_or_none(job.completed_at),
        "cancelRequestedAt": iso_or_none(job.cancel_requested_at),
        "errorCode": error_code(job),
        "statusReason": job.status_reason,
        "simcExitCode": job.simulator_exit_code,
        "retentionDays": settings.RETENTION_DAYS,
        "metadata": job.metadata,
        "runtime": runtime(job),
        "retried": job.retried,
        "build": build_of(job),
        "links": links.of(job),
    }


def error_code(job: Job) -> shapes.ErrorCode | None:
    """Return why a job did not complete, for programs."""
    return cast(shapes.ErrorCode | None, job.error_code)


def runtime(job: Job) -> shapes.Runtime:
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


def build_of(job: Job) -> shapes.JobBuild | None:
    """Return the build a job ran on, null until one did."""
    build: Build | None = job.build
    if build is None:
        return None
    return {"id": str(build.pk), "channel": Channel(job.channel), "commit": build.commit, "ci": build.ci}


def status_object(job: Job, progress: Progress) -> shapes.JobStatus:
    """Return the body of `GET jobs/{id}/status`."""
    return {
        "id": str(job.pk),
        "metadata": job.metadata,
        "status": Status(job.status),
        "errorCode": error_code(job),
        "statusReason": job.status_reason,
        "simcExitCode": job.simulator_exit_code,
        "queue": queue_of(job),
        "progress": progress_object(progress),
        "logEntries": None,
        "startedAt": iso_or_none(job.started_at),
        "updatedAt": iso(job.updated_at),
        "retried": job.retried,
    }


def queue_of(job: Job) -> shapes.Queue | None:
    """Return the job's wait, null once it started."""
    if job.status not in WAITING:
        return None
    return {"queuedAt": iso(job.created_at), "estimatedStartSeconds": None, "estimatedStartUpdatedAt": None}


def progress_object(progress: Progress) -> shapes.Progress:
    """Return how far a job is, in percent."""
    return cast(shapes.Progress, asdict(progress))


def result_object(job: Job, artifacts: Sequence[Artifact], links: Links) -> shapes.JobResult:
    """Return the body of `GET jobs/{id}/result`."""
    listed: list[shapes.ResultArtifact] = [
        {"id": str(artifact.pk), **artifact_object(artifact, links)} for artifact in artifacts
    ]
    return {**job_object(job, links), "result": {"summary": job.summary, "artifacts": listed}}


def artifact_object(artifact: Artifact, links: Links) -> shapes.ArtifactFile:
    """Return what the result and the manifest say of an artifact alike."""
    return {
        "kind": Artifact.Kind(artifact.kind),
        "stage": artifact.stage,
        "url": links.artifact(artifact),
        "mimeType": artifact.mime_type,
        "bytes": artifact.bytes,
    }


def manifest(job: Job, artifacts: Sequence[Artifact], links: Links) -> shapes.Manifest:
    """Return the public manifest of an ended job: what the result says, without the character's gear."""
    return {
        "version": "v1",
        "job": {
            "id": str(job.pk),
            "status": Status(job.status),
            "createdAt": iso(job.created_at),
            "startedAt": iso_or_none(job.started_at),
            "completedAt": iso_or_none(job.completed_at),
        },
        "build": build_of(job),
        "result": {"summary": without_gear(job.summary)},
        "artifacts": [{**artifact_object(a, links), "sha256": a.sha256} for a in artifacts],
    }


def without_gear(summary: shapes.Summary | None) -> shapes.Summary | None:
    """Return the summary as strangers may see it."""
    if summary is None or summary["mainActor"] is None:
        return summary
    shown = summary["mainActor"].copy()
    shown.pop("gear", None)
    return {**summary, "mainActor": shown}


def build_list(current: Sequence[tuple[Channel, Build]]) -> shapes.BuildList:
    """Return what each channel means on each branch."""
    listed: list[shapes.ChannelBuild] = [{"channel": channel, **build_object(build)} for channel, build in current]
    return {"generatedAt": iso(timezone.now()), "builds": listed}


def build_object(build: Build) -> shapes.Build:
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


def game_data(build: Build) -> shapes.GameData | None:
    """Return which game data a build holds, null when its version line did not say."""
    if not build.wow_version:
        return None
    hotfix = build.hotfix_date.isoformat() if build.hotfix_date else None
    return {"live": {"version": build.wow_version, "hotfixDate": hotfix}, "ptr": None}
