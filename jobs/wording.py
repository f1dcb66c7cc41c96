"""What happens to jobs, in plain words for people: statuses, causes, events, stages, limits of a run."""

from jobs.forecast import Place
from jobs.models import WAITING, Artifact, Job, JobEvent, Priority, Run, Status

STATUSES = {
    Status.PENDING: "Waiting for its turn",
    Status.QUEUED: "Waiting for its turn",
    Status.STARTING: "Getting ready",
    Status.RUNNING: "Running",
    Status.COMPLETED: "Completed",
    Status.FAILED: "Failed",
    Status.CANCELLED: "Cancelled",
    Status.TIMED_OUT: "Stopped at its limit",
}
# What a person can do about a job that did not complete (contract, section 5).
ADVICE = {
    "queue_timeout": "It never started, so it is safe to submit it again.",
    "execution_timeout": "A higher cap, or a larger target error, lets it finish.",
    "max_credits_reached": "A higher cap, or a larger target error, lets it finish.",
    "insufficient_credits": "With more credits it can be submitted again.",
    "simulation_error": "The simulator refused the profile; its message says what to change.",
    "execution_failed": "If the profile works elsewhere, try another build channel.",
    "input_invalid": "Correct the profile as the message says, then submit it again.",
    "build_unavailable": "Choose another channel, or wait until there is a build.",
    "execution_interrupted": "The cause was the platform's, so it is safe to submit it again.",
    "internal": "The cause was the platform's, so it is safe to submit it again.",
}
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
    return STATUSES[Status(job.status)]


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
    return MOVES.get(to) or STATUSES[to]


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
