"""What happens to jobs, in plain words for people: statuses, causes, events, stages, limits of a run."""

from jobs.enums import WAITING, ErrorCode, Priority, PublicStatus, Status
from jobs.models import Artifact, Job, JobEvent, Run
from jobs.queueing.forecast import Place
from jobs.runs import verdict
from jobs.simulator.reports import NotReached

STATUSES = {
    PublicStatus.PENDING: "Waiting for its turn",
    PublicStatus.QUEUED: "Waiting for its turn",
    PublicStatus.RUNNING: "Running",
    PublicStatus.COMPLETED: "Completed",
    PublicStatus.FAILED: "Failed",
    PublicStatus.CANCELLED: "Cancelled",
    PublicStatus.TIMED_OUT: "Stopped at its limit",
}
# From this factor on, the reported margins of error are misleading.
WIDE_SPREAD = 2.0
SMALLER_JOBS = "Split the profile into several jobs. With fewer actors and profilesets, each of them"
OVER_THE_CAP = (
    "Raise the cap if your plan allows it, or shorten the job: use a larger target error, fewer iterations or "
    "fewer profilesets."
)
# What to do next about a job that did not complete (contract, section 5).
ADVICE: dict[str, str] = {
    ErrorCode.QUEUE_TIMEOUT: "Submit the job again with a longer queue limit, or when fewer jobs are waiting.",
    ErrorCode.USER_CANCELLED: "To run the job after all, submit it again.",
    ErrorCode.EXECUTION_TIMEOUT: OVER_THE_CAP,
    ErrorCode.MAX_CREDITS_REACHED: OVER_THE_CAP,
    ErrorCode.INSUFFICIENT_CREDITS: "Submit the job again when the account has more credits.",
    ErrorCode.SIMULATION_ERROR: "Correct the profile as the message above suggests, then submit the job again.",
    ErrorCode.EXECUTION_FAILED: (
        "Check the simulator's messages, then correct the profile or choose another build channel."
    ),
    ErrorCode.INPUT_INVALID: (
        "Correct the profile as the message above suggests, then submit the job again. Every profile needs a "
        'character, for example mage="Name".'
    ),
    ErrorCode.BUILD_UNAVAILABLE: "Choose another build channel, or submit the job again when a build is available.",
    ErrorCode.EXECUTION_INTERRUPTED: "Submit the job again; the profile was not the cause.",
    ErrorCode.INTERNAL: "Submit the job again. If it fails again, send its ID to the operator of this service.",
}
# Better advice where the cause of `execution_failed` is known: a crash, lost credentials, or a limit.
CRASHED = "Submit the job again on another build channel; another build may not have this fault."
CREDENTIALS_LOST = "Submit the job again together with its game credentials."
STOPPED_ADVICE = {
    "output_flood": f"{SMALLER_JOBS} prints less.",
    "disk_flood": f"{SMALLER_JOBS} writes less.",
    "memory_limit": f"{SMALLER_JOBS} needs less memory.",
}
# A claim does not change the public status: callers still see the job as queued.
MOVES = {
    Status.PENDING: "Accepted",
    Status.QUEUED: "Put into the queue",
    Status.STARTING: "Taken by a worker",
    Status.RUNNING: "The simulator started",
}
# Why a job that asked for stages ran in one pass all the same (contract, section 4: `multiStage.reason`).
SINGLE_PASS = {
    "no_variants_in_input": "the profile has no profilesets to choose from",
    "no_profileset_candidates": "no profileset changes anything that stages could tell apart",
    "below_min_candidates": "the profile has too few profilesets for stages to save anything",
    "unsupported_copy_set_only": "the profile's variants are copies of the actor, which cannot be left out early",
    "unsupported_mixed_profileset_copy_set": "the profile mixes profilesets with copies of the actor",
    "unsupported_multi_actor": "the profile has more than one actor",
    "unsupported_stage_sensitive_directive": "an option of the profile keeps stages from being compared",
}
STAGES = {"initial": "First look", "intermediate": "Closer look", "final": "Final"}
# Why a simulator's process was stopped.
STOPS = {
    "ceiling": "stopped at the job's cap",
    "overtime": "stopped at the job's cap",
    "credits": "stopped: no credits were left to reserve",
    "cancelled": "cancelled",
    "output_flood": "stopped: it printed too much",
    "disk_flood": "stopped: it wrote too much",
    "memory_limit": "stopped: it used too much memory",
    "lost": "lost with its worker",
}
LAYERS = {
    "bubblewrap": "own file system (bubblewrap)",
    "network_namespace": "no network",
    "landlock": "file access rules (Landlock)",
    "own_uid": "own user id",
    "user_namespace": "user namespace",
    "rlimits": "resource limits",
    "seccomp": "system call filter (seccomp)",
    "game_api_exit": "exit to the game platform only",
    # Recorded by runs of earlier versions.
    "network_open": "network open for the game platform",
}
ARTIFACTS = {
    Artifact.Kind.JSON_REPORT: "Report (JSON)",
    Artifact.Kind.HTML_REPORT: "Report (HTML)",
    Artifact.Kind.CSV_REPORT: "Table (CSV)",
    Artifact.Kind.INPUT: "Input",
    Artifact.Kind.STDOUT_LOG: "Output",
    Artifact.Kind.STDERR_LOG: "Messages",
}


def status_of(job: Job) -> str:
    """Return a job's status; a running one whose cancel was asked for is being stopped."""
    if job.cancel_requested_at is not None and not job.is_terminal:
        return "Being stopped"
    return STATUSES[job.public_status]


def advice(job: Job, last_run: Run | None) -> str | None:
    """Return what to do next about an ended job; None if it completed or has not ended."""
    if job.error_code != ErrorCode.EXECUTION_FAILED:
        return ADVICE.get(job.error_code or "")
    if last_run is None or last_run.attempt != job.attempt:
        return CREDENTIALS_LOST if job.has_credentials else ADVICE[ErrorCode.EXECUTION_FAILED]
    if last_run.stopped_for in STOPPED_ADVICE:
        return STOPPED_ADVICE[last_run.stopped_for]
    return CRASHED if verdict.is_crash(last_run.exit_code) else ADVICE[ErrorCode.EXECUTION_FAILED]


def priority_of(job: Job) -> str:
    """Return the name of a job's lane."""
    return Priority(job.priority).label


def place(found: Place | None) -> str:
    """Return where a waiting job stands, in a sentence."""
    if found is None:
        return "It is in the queue."
    before = f"About {found.ahead:,} {'job starts' if found.ahead == 1 else 'jobs start'} before it"
    where = before if found.ahead else "It is next in the queue"
    return f"{where}." if found.seconds is None else f"{where}; it should start {soon(found.seconds)}."


def soon(seconds: int) -> str:
    """Return a time from now as people say it."""
    if seconds < 60:
        return "within a minute"
    if seconds < 5400:
        minutes = round(seconds / 60)
        return f"in about {minutes} minute{'' if minutes == 1 else 's'}"
    return f"in about {round(seconds / 3600)} hours"


def event(found: JobEvent) -> str:
    """Return what happened; an end's reason is the job's own and told with the job."""
    to, was = Status(found.to_status), found.from_status
    if to == Status.QUEUED and was and Status(was) not in WAITING:
        return f"Attempt {found.attempt} was lost; back in the queue, at its old place"
    if to == Status.STARTING and found.attempt > 1:
        return f"Taken by a worker, attempt {found.attempt}"
    return MOVES.get(to) or STATUSES[PublicStatus(to)]


def with_not_reached(reason: str | None, missed: NotReached | None) -> str | None:
    """Return why a job ended, followed by the number of actors and profilesets not reached."""
    told = not_reached(missed.actors, missed.profilesets) if missed else ""
    return f"{reason} {told}" if reason and told else reason


def not_reached(actors: int, profilesets: int) -> str:
    """Return how many actors and profilesets were not reached, as a sentence; an empty text for none."""
    counts = (actors, "actor"), (profilesets, "profileset")
    parts = [f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in counts if count]
    verb = "was" if actors + profilesets == 1 else "were"
    return f"{' and '.join(parts)} {verb} not reached." if parts else ""


def spread(widening: float) -> list[str]:
    """Return a warning if two runs of the same profileset differed by much more than their errors."""
    if widening < WIDE_SPREAD:
        return []
    told = (
        f"Two runs of the same profileset differed by about {widening:.1f} times their margin of error, so the "
        "ranking can change from run to run. Each stage therefore left out fewer profilesets."
    )
    return [told]


def single_pass(reason: str) -> str | None:
    """Return why a job that asked for stages ran in one pass, None when it did not ask or ran in stages."""
    return SINGLE_PASS.get(reason)


def end_of(run: Run) -> str:
    """Return how a simulator's process ended."""
    if run.ended_at is None:
        return "running"
    if run.stopped_for:
        return STOPS.get(run.stopped_for, run.stopped_for)
    return f"exit status {run.exit_code}"


def layers_of(run: Run) -> str:
    """Return what held a process, in words."""
    return ", ".join(LAYERS.get(layer, str(layer).replace("_", " ")) for layer in run.sandbox_layers)
