"""Labels for people: statuses, advice, events, stages, stop reasons and artifacts of jobs."""

import math
from collections.abc import Sequence

from billing import prices
from jobs import failure_causes
from jobs.enums import (
    ErrorCode,
    MultistageReason,
    Priority,
    PublicStatus,
    ReturnCause,
    StageLabel,
    Status,
    StopReason,
)
from jobs.failure_causes import FailureCause
from jobs.models import Artifact, Job, JobEvent, Run
from sandbox.layers import Layer
from simc.reports import NotReached

STATUSES = {
    PublicStatus.PENDING: "Waiting",
    PublicStatus.QUEUED: "Waiting",
    PublicStatus.RUNNING: "Running",
    PublicStatus.COMPLETED: "Completed",
    PublicStatus.FAILED: "Failed",
    PublicStatus.CANCELLED: "Cancelled",
    PublicStatus.TIMED_OUT: "Timed out",
}
# From this factor on, the simulator's margins of error are misleading.
WIDE_SPREAD = 2.0
SMALLER_JOBS = "Split the profile into several jobs. With fewer actors and variants, each job"
RAISE_THE_LIMIT = (
    "Raise the limit if your plan allows it, or shorten the job with a larger target error, fewer iterations or "
    "fewer variants."
)
# What to do next when a job did not complete (docs/reference/errors.md#job-error-codes).
ADVICE: dict[str, str] = {
    ErrorCode.QUEUE_TIMEOUT: "Run the job again with a longer queue limit or when fewer jobs are waiting.",
    ErrorCode.USER_CANCELLED: "Run the job again to get results.",
    ErrorCode.EXECUTION_TIMEOUT: RAISE_THE_LIMIT,
    ErrorCode.MAX_CREDITS_REACHED: RAISE_THE_LIMIT,
    ErrorCode.INSUFFICIENT_CREDITS: "Run the job again when the account has more credits.",
    ErrorCode.SIMULATION_ERROR: "Correct the error shown above, then run the job again.",
    ErrorCode.EXECUTION_FAILED: "Check the error log, then correct the profile or choose another build channel.",
    ErrorCode.INPUT_INVALID: (
        "Correct the error shown above, then run the job again. Every profile needs a character, for example "
        'mage="Name".'
    ),
    ErrorCode.BUILD_UNAVAILABLE: (
        "Changing the build channel does not help. Choose another branch, or run the job again once this one has a "
        "build."
    ),
    ErrorCode.EXECUTION_INTERRUPTED: "Run the job again. The profile did not cause this error.",
    ErrorCode.INTERNAL: "Run the job again. If it fails again, send its ID to the operator of this service.",
}
# More specific advice for `execution_failed`.
CRASHED = "Run the job again on another build channel, in case this build has a bug."
LEAVE_OUT_HTML = "Run the job again without the HTML report. A higher limit would not help."
NOT_THE_PROFILE = (
    "The profile did not cause this error. Run the job again. If it fails again, send its ID to the operator of "
    "this service."
)
CREDENTIALS_LOST = "Run the job again and include its game credentials."
STOPPED_ADVICE: dict[str, str] = {
    StopReason.OUTPUT_FLOOD: f"{SMALLER_JOBS} produces less output.",
    StopReason.DISK_FLOOD: f"{SMALLER_JOBS} writes less to disk.",
    StopReason.MEMORY_LIMIT: f"{SMALLER_JOBS} needs less memory.",
}
CAUSE_ADVICE: dict[FailureCause, str] = {
    FailureCause.PLATFORM: (
        "The profile did not cause this error: the game platform could not be reached or did not respond as "
        "expected. Run the job again later."
    ),
    FailureCause.REPORT: NOT_THE_PROFILE,
    FailureCause.DISK: NOT_THE_PROFILE,
    FailureCause.MEMORY: STOPPED_ADVICE[StopReason.MEMORY_LIMIT],
    FailureCause.BUILD: CRASHED,
}
EVENTS = {
    Status.PENDING: "Submitted",
    Status.QUEUED: "Queued",
    Status.STARTING: "Assigned to a worker",
    Status.RUNNING: "Simulation started",
}
# Why a job ran in a single pass although stages were requested (docs/reference/api.md#stages).
SINGLE_PASS: dict[str, str] = {
    MultistageReason.NO_VARIANTS: "the profile has no variants",
    MultistageReason.NO_CANDIDATES: "no variant makes a change that stages can compare",
    MultistageReason.TOO_FEW_CANDIDATES: "the profile has too few variants for stages to save time",
    MultistageReason.COPIES_ONLY: "the profile compares copies of the actor, which stages cannot drop",
    MultistageReason.MIXED_WITH_COPIES: "the profile mixes profilesets with copies of the actor",
    MultistageReason.SEVERAL_ACTORS: "the profile has more than one actor",
    MultistageReason.STAGE_SENSITIVE: "an option in the profile prevents comparing the results of stages",
}
STAGES: dict[str, str] = {label: label.label for label in StageLabel}
# Why a simulator process was stopped.
STOPS: dict[str, str] = {
    StopReason.CEILING: "stopped at the job's limit",
    StopReason.OVERTIME: "stopped at the job's limit",
    StopReason.CREDITS: "stopped when credits ran out",
    StopReason.CANCELLED: "cancelled",
    StopReason.OUTPUT_FLOOD: "stopped at the output limit",
    StopReason.DISK_FLOOD: "stopped at the disk limit",
    StopReason.MEMORY_LIMIT: "stopped at the memory limit",
    StopReason.SHARD_FAILED: "stopped because another shard failed",
    StopReason.LOST: "lost when its worker stopped",
}
SANDBOX_LAYERS: dict[str, str] = {
    Layer.BUBBLEWRAP: "private file system (bubblewrap)",
    Layer.NETWORK_NAMESPACE: "no network",
    Layer.LANDLOCK: "file access rules (Landlock)",
    Layer.OWN_UID: "separate user ID",
    Layer.USER_NAMESPACE: "user namespace",
    Layer.RLIMITS: "resource limits",
    Layer.SECCOMP: "system call filter (seccomp)",
    Layer.PROXY: "network access to the game API only",
}
ARTIFACTS = {
    Artifact.Kind.JSON_REPORT: "JSON report",
    Artifact.Kind.HTML_REPORT: "HTML report",
    Artifact.Kind.CSV_REPORT: "CSV table",
    Artifact.Kind.INPUT: "Input",
    Artifact.Kind.STDOUT_LOG: "Output log",
    Artifact.Kind.STDERR_LOG: "Error log",
}

# The end of the reason of a job that was stopped while it ran
TIME_IS_BILLED = "The simulation time used is billed."
# Job error codes whose reasons can quote the profile
QUOTING = (ErrorCode.SIMULATION_ERROR, ErrorCode.EXECUTION_FAILED, ErrorCode.INPUT_INVALID)
HIDDEN_REASON = "The reason can quote the profile, which is not shown."


def time_left(seconds: int | None) -> str:
    """Return an estimate of the remaining time, such as "about 3 minutes left"; empty if unknown."""
    if seconds is None:
        return ""
    if seconds < 10:
        return "a few seconds left"
    if seconds <= 50:
        return f"about {math.ceil(seconds / 10) * 10} seconds left"
    minutes = max(1, round(seconds / 60))
    if minutes < 60:
        return f"about {_count(minutes, 'minute')} left"
    hours, rest = divmod(round(minutes, -1), 60)
    return f"about {_count(hours, 'hour')}{f' {rest} minutes' if rest else ''} left"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def status_of(job: Job) -> str:
    """Return a job's status, or "Stopping", "Pausing" or "Paused" after a request of its owner."""
    if not job.is_terminal:
        if job.cancel_requested_at is not None:
            return "Stopping"
        if job.pause_requested_at is not None:
            return "Pausing"
        if job.is_paused:
            return "Paused"
    return STATUSES[job.public_status]


def public_reason(job: Job) -> str:
    """Return why a job ended, for its share link, without quoting a hidden profile."""
    if not job.status_reason or job.shows_inputs or job.error_code not in QUOTING:
        return job.status_reason or ""
    return HIDDEN_REASON


def advice(job: Job, runs: Sequence[Run]) -> str | None:
    """Return what to do next about an ended job, given its runs, or None if it completed or has not ended.

    Results of a cancelled job need no advice.
    """
    if job.error_code == ErrorCode.USER_CANCELLED and job.has_result and job.summary:
        return None
    if _lacks_only_html(job):
        return LEAVE_OUT_HTML
    if job.error_code != ErrorCode.EXECUTION_FAILED:
        return ADVICE.get(job.error_code or "")
    if job.has_credentials and not any(run.attempt == job.attempt for run in runs):
        return CREDENTIALS_LOST
    counted = counted_runs(runs, attempt=job.attempt)
    # All runs are searched: when one shard fails, those of other shards are only stopped.
    for run in counted:
        if run.stopped_for in STOPPED_ADVICE:
            return STOPPED_ADVICE[run.stopped_for]
    own = [run.exit_code for run in counted if not run.stopped_for]
    if any(map(failure_causes.is_crash, own)):
        return CRASHED
    causes = (failure_causes.failure_cause(job.status_reason, code) for code in own)
    return next(
        (CAUSE_ADVICE[cause] for cause in causes if cause in CAUSE_ADVICE), ADVICE[ErrorCode.EXECUTION_FAILED]
    )


def counted_runs(runs: Sequence[Run], *, attempt: int) -> list[Run]:
    """Return the runs of an attempt, and those of earlier ones that it kept: they ended and did not run again."""
    last = {(run.stage, run.shard): run for run in sorted(runs, key=lambda run: (run.attempt, run.try_number))}
    return [
        run
        for run in runs
        if run.attempt == attempt or (run.wall_ms is not None and last[run.stage, run.shard] is run)
    ]


def _lacks_only_html(job: Job) -> bool:
    """Return whether a job was stopped after all its fights, while it wrote the HTML report."""
    reasons = (entry["reason"] for entry in job.missing_artifacts if entry["kind"] == Artifact.Kind.HTML_REPORT)
    return bool(job.error_code) and any(
        failure_causes.UNFINISHED_HTML in reason[:1].lower() + reason[1:] for reason in reasons
    )


def bill(job: Job) -> str:
    """Return how the credits of an ended job add up, empty if it has not ended."""
    if job.credits_consumed is None:
        return ""
    return prices.in_words(
        job.sim_duration_ms,
        credits_per_second=job.credits_per_second,
        fee=job.fee_credits,
        charged=job.credits_consumed,
        slots=job.slots_used,
    )


def priority_of(job: Job) -> str:
    """Return the name of a job's priority."""
    return Priority(job.priority).label


def soon(seconds: int) -> str:
    """Return a time from now as a phrase, for example "in about 5 minutes"."""
    if seconds < 60:
        return "within a minute"
    if seconds < 5400:
        minutes = round(seconds / 60)
        return f"in about {minutes} minute{'' if minutes == 1 else 's'}"
    return f"in about {round(seconds / 3600)} hours"


def duration(seconds: float) -> str:
    """Return a duration in words: seconds up to 90, then minutes up to 90, then hours, up to 10 with minutes."""
    if seconds <= 90:
        return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:g} s"
    minutes = round(seconds / 60)
    if minutes <= 90:
        return f"{minutes} min"
    if minutes >= 600:
        return f"{minutes / 60:,.0f} h"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h{f' {rest} min' if rest else ''}"


def event(job_event: JobEvent) -> str:
    """Return the label of an event in a job's history."""
    to = Status(job_event.to_status)
    if job_event.cause in (ReturnCause.PAUSED, ReturnCause.RESUMED):
        return ReturnCause(job_event.cause).label
    if job_event.from_status == job_event.to_status:
        return f"Attempt {job_event.attempt} cannot reuse the finished work and starts again"
    if job_event.is_return:
        end = "was lost" if job_event.cause == ReturnCause.LOST else "was stopped"
        return f"Attempt {job_event.attempt} {end}; the job returned to its position in the queue"
    if to == Status.STARTING and job_event.attempt > 1:
        return f"Assigned to a worker (attempt {job_event.attempt})"
    return EVENTS.get(to) or STATUSES[PublicStatus(to)]


def with_not_reached(reason: str | None, missed: NotReached | None) -> str | None:
    """Return why a job ended, followed by how many actors and profilesets were not simulated."""
    missing = not_reached(missed.actors, missed.profilesets) if missed else ""
    return f"{reason} {missing}" if reason and missing else reason


def not_reached(actors: int, profilesets: int) -> str:
    """Return how many actors and profilesets were not simulated as a sentence, empty if none."""
    counts = (actors, "actor"), (profilesets, "profileset")
    parts = [f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in counts if count]
    verb = "was" if actors + profilesets == 1 else "were"
    return f"{' and '.join(parts)} {verb} not simulated." if parts else ""


def spread(widening: float) -> list[str]:
    """Return a warning if two runs of the same profileset differed by much more than their errors."""
    if widening < WIDE_SPREAD:
        return []
    warning = (
        f"Two runs of the same profileset differed by about {widening:.1f} times their margin of error, so the "
        "ranking may change from run to run. Each stage therefore dropped fewer profilesets."
    )
    return [warning]


def single_pass(reason: str) -> str | None:
    """Return why a job ran in a single pass, or None for a `multiStage.reason` that needs no explanation."""
    return SINGLE_PASS.get(reason)


def end_of(run: Run) -> str:
    """Return how a simulator process ended."""
    if run.ended_at is None:
        return "running"
    if run.stopped_for:
        return STOPS.get(run.stopped_for, run.stopped_for)
    return f"exit status {run.exit_code}"


def layers_of(run: Run) -> str:
    """Return the sandbox layers that isolated a process."""
    return ", ".join(SANDBOX_LAYERS.get(layer, str(layer).replace("_", " ")) for layer in run.sandbox_layers)
