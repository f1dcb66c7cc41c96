"""What the API says about a job, in the contract's words (contract, sections 3 and 4)."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import cast

from django.conf import settings
from django.utils import timezone

from billing.models import Plan, Pool
from clients.rate_limits import Window
from jobs import artifacts, retention, usage, variants
from jobs.api import shapes
from jobs.api.links import Links
from jobs.cancellation import Cancellation
from jobs.enums import Channel, Priority
from jobs.models import Artifact, Build, Job
from jobs.progress import LogEntry, Progress
from jobs.queueing.forecast import estimated_start
from jobs.submission.accept import Accepted
from simservice.api.fields import iso, iso_or_none

PRIORITY_NAMES: dict[int, shapes.PriorityName] = {
    Priority.HIGH: "high",
    Priority.STANDARD: "standard",
    Priority.BACKGROUND: "background",
}


def submission_response(accepted: Accepted, links: Links) -> shapes.Submitted:
    """Return the answer to an accepted submission; warnings and deprecations are left out when there are none."""
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
    if accepted.deprecated_fields:
        answer["deprecations"] = [deprecation(field, links) for field in accepted.deprecated_fields]
    return answer


def deprecation(field: str, links: Links) -> shapes.Deprecation:
    """Return what a caller should know about a field that will go."""
    instead = f"runtime.{variants.current().cap_field}"
    message = f"{field} is read for the sake of older callers; send {instead} instead."
    return {"field": field, "message": message, "docsUrl": links.docs("deprecations")}


def ceiling(job: Job) -> shapes.Ceiling:
    """Return what the job may use, as the deployment's variant tells it."""
    return {
        "maxCredits": job.ceiling_credits if variants.current().tells_credit_ceiling else None,
        "runtimeSeconds": job.ceiling_runtime_seconds,
        "queueSeconds": job.ceiling_queue_seconds,
    }


def job_object(job: Job, links: Links) -> shapes.Job:
    """Return the job object of `GET jobs/{id}`."""
    return {
        "id": str(job.pk),
        "status": job.public_status,
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
        "priorityFeeCredits": job.fee_credits,
        "creditsPerSecond": job.credits_per_second,
        "vcpus": job.vcpus,
        "ceiling": ceiling(job),
    }


def build_of(job: Job) -> shapes.JobBuild | None:
    """Return the build a job ran on, null until one did."""
    build: Build | None = job.build
    if build is None:
        return None
    return {"id": str(build.pk), "channel": Channel(job.channel), "commit": build.commit, "ci": job_checks(build)}


def status_object(job: Job, progress: Progress, log_entries: Sequence[LogEntry] | None) -> shapes.JobStatus:
    """Return the body of `GET jobs/{id}/status`."""
    return {
        "id": str(job.pk),
        "metadata": job.metadata,
        "status": job.public_status,
        "errorCode": error_code(job),
        "statusReason": job.status_reason,
        "simcExitCode": job.simulator_exit_code,
        "queue": queue_of(job),
        "progress": progress_object(progress),
        "logEntries": None if log_entries is None else [log_entry(entry) for entry in log_entries],
        "startedAt": iso_or_none(job.started_at),
        "updatedAt": iso(job.updated_at),
        "retried": job.retried,
    }


def log_entry(entry: LogEntry) -> shapes.LogEntry:
    """Return one line that the simulator printed."""
    return {"source": entry.source, "message": entry.message, "ts": entry.ts}


def queue_of(job: Job) -> shapes.Queue | None:
    """Return the job's wait, null once its simulator runs or the job has ended (contract, section 4)."""
    if not job.is_waiting:
        return None
    estimate = estimated_start(job)
    return {
        "queuedAt": iso(job.created_at),
        "estimatedStartSeconds": estimate.seconds if estimate else None,
        "estimatedStartUpdatedAt": iso(estimate.updated_at) if estimate else None,
    }


def progress_object(progress: Progress) -> shapes.Progress:
    """Return how far a job is, in percent."""
    return cast(shapes.Progress, asdict(progress))


def result_object(job: Job, files: Sequence[Artifact], links: Links) -> shapes.JobResult:
    """Return the body of `GET jobs/{id}/result`."""
    listed: list[shapes.ResultArtifact] = [
        {"id": str(artifact.pk), **artifact_object(artifact, links)} for artifact in files
    ]
    result: shapes.Result = {"summary": job.summary, "artifacts": listed}
    if job.missing_artifacts:
        result["missingArtifacts"] = [missing_artifact(**missing) for missing in job.missing_artifacts]
    return {**job_object(job, links), "result": result}


def missing_artifact(*, kind: str, stage: int | None, reason: str) -> shapes.MissingArtifact:
    """Return the entry of the result for an artifact that could not be stored."""
    found = Artifact.Kind(kind)
    return {"kind": found, "name": artifacts.file_name(found, stage=stage), "stage": stage, "reason": reason}


def artifact_object(artifact: Artifact, links: Links) -> shapes.ArtifactFile:
    """Return what the result and the manifest say of an artifact alike."""
    return {
        "kind": Artifact.Kind(artifact.kind),
        "name": artifacts.file_name(Artifact.Kind(artifact.kind), stage=artifact.stage),
        "stage": artifact.stage,
        "url": links.artifact(artifact),
        "mimeType": artifacts.media_type(artifact),
        "bytes": artifact.bytes,
    }


def manifest(job: Job, files: Sequence[Artifact], links: Links) -> shapes.Manifest:
    """Return the public manifest of an ended job: its full result, without its account and metadata."""
    return {
        "version": "v1",
        "job": {
            "id": str(job.pk),
            "status": job.public_status,
            "createdAt": iso(job.created_at),
            "startedAt": iso_or_none(job.started_at),
            "completedAt": iso_or_none(job.completed_at),
        },
        "build": build_of(job),
        "result": {"summary": job.summary},
        "artifacts": [{**artifact_object(a, links), "sha256": a.sha256} for a in files],
    }


def build_list(current: Sequence[tuple[Channel, Build]]) -> shapes.BuildList:
    """Return what each channel means on each branch."""
    listed: list[shapes.ChannelBuild] = [{"channel": channel, **build_object(build)} for channel, build in current]
    return {"generatedAt": iso(timezone.now()), "builds": listed}


def build_object(build: Build) -> shapes.Build:
    """Return what there is to know about a build."""
    return {
        "gitBranch": build.git_branch,
        "repo": build.repo,
        "commit": build.commit,
        "simcVersion": build.simc_version,
        "gameData": game_data(build),
        "id": str(build.pk),
        "createdAt": iso(build.created_at),
        "ci": checks(build),
        "profiles": bundled_profiles(build),
    }


def bundled_profiles(build: Build) -> shapes.BundledProfiles | None:
    """Return the files that come with a build, None if there are none."""
    if not build.profiles_path:
        return None
    return {"manifest": build.profiles, "includable": build.includable}


def game_data(build: Build) -> shapes.GameData | None:
    """Return which game data a build holds, null unless its version line told both version and hotfix date."""
    if not build.wow_version or build.hotfix_date is None:
        return None
    return {"live": {"version": build.wow_version, "hotfixDate": build.hotfix_date.isoformat()}, "ptr": None}


def checks(build: Build) -> shapes.Checks | None:
    """Return whether a build's bundled profiles simulate, None if none were checked."""
    if build.ci is None:
        return None
    total, failures = build.ci["total"], [failure["name"] for failure in build.ci["failures"]]
    return {
        "status": check_status(total=total, failed=len(failures)),
        "checks": {"total": total, "passed": total - len(failures), "failed": len(failures)},
        "failures": failures,
        "gatedOn": [],
        "retrievedAt": iso(datetime.fromisoformat(build.ci["checked_at"])),
    }


def check_status(*, total: int, failed: int) -> shapes.CheckStatus:
    """Return the verdict on a build's bundled profiles."""
    if not total:
        return "unknown"
    if not failed:
        return "pass"
    return "partial" if failed < total else "fail"


def job_checks(build: Build) -> shapes.JobChecks | None:
    """Return the short form of `checks` in a job's `build`."""
    found = checks(build)
    return found and {"status": found["status"], "failed": found["checks"]["failed"]}


def job_list(jobs: Sequence[Job], *, limit: int, next_cursor: str | None, links: Links) -> shapes.JobList:
    """Return a page of an account's jobs."""
    page: shapes.Page = {
        "limit": limit,
        "hasMore": next_cursor is not None,
        "nextCursor": next_cursor,
        "since": iso(retention.window_start()),
    }
    return {"jobs": [listed_job(job, links) for job in jobs], "page": page}


def listed_job(job: Job, links: Links) -> shapes.ListedJob:
    """Return a job as the list shows it."""
    return {
        "id": str(job.pk),
        "status": job.public_status,
        "createdAt": iso(job.created_at),
        "completedAt": iso_or_none(job.completed_at),
        "errorCode": error_code(job),
        "metadata": job.metadata,
        "buildId": str(job.build_id) if job.build_id else None,
        "links": links.of(job),
    }


def usage_object(
    period: usage.Period, snapshot: usage.Snapshot, *, plan: Plan, reads: Window | None
) -> shapes.Usage:
    """Return the body of `GET usage`; `reads` is None while nobody knows how many there were."""
    limits = plan_limits(plan)
    return {
        "period": {
            "start": iso(period.start),
            "end": iso(period.end),
            "simsRun": period.sims_run,
            "avgRuntimeSeconds": period.average_runtime_seconds,
            "readsUsed": reads.used if reads else None,
            "readsLimit": plan.reads_per_minute,
            "readsCapResetAt": iso(datetime.fromtimestamp(reads.reset_at, UTC)) if reads else None,
        },
        "snapshot": {
            "activeJobs": snapshot.active,
            "queuedJobs": snapshot.waiting,
            "runningJobs": snapshot.running,
        },
        "plan": limits,
        "limits": limits,
    }


def plan_limits(plan: Plan) -> shapes.PlanLimits:
    """Return what a plan allows, with the defaults of the deployment's variant."""
    variant = variants.current()
    default_seconds = variant.default_runtime_for(plan)
    return {
        "maxActiveJobs": plan.max_active_jobs,
        "maxCreditsPerJob": plan.max_credits_per_job,
        "defaultCreditsPerJob": default_seconds and default_seconds * plan.credits_per_second,
        "maxRuntimeSeconds": plan.max_runtime_seconds,
        "defaultRuntimeSeconds": default_seconds,
        "maxQueueSeconds": plan.max_queue_seconds,
        "defaultQueueSeconds": variant.default_queue_for(plan),
        "creditsPerSecond": plan.credits_per_second,
        "vcpuPerJob": plan.vcpu_per_job,
        "maxSimcVariants": plan.max_variants,
        "pool": Pool(plan.pool),
        "priorityFeeCredits": {"high": plan.high_priority_fee_credits},
    }


def cancellation(job: Job, done: Cancellation) -> shapes.Cancellation:
    """Return the response to a cancellation: whether the job was cancelled or is being stopped."""
    job_id, metadata = str(job.pk), job.metadata
    if done.requested_at is None:
        return {"success": True, "id": job_id, "status": "cancelled", "metadata": metadata}
    return {
        "success": True,
        "id": job_id,
        "status": "cancel_requested",
        "cancelRequestedAt": iso(done.requested_at),
        "metadata": metadata,
    }
