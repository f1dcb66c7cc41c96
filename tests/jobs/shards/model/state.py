"""A state of the model: rows, files and processes, all immutable."""

from enum import StrEnum
from typing import Any, NamedTuple


class Status(StrEnum):
    """The status of job A."""

    WAITING = "waiting"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    CAPPED = "capped"


UNFINISHED = (Status.WAITING, Status.RUNNING)


class ShardStatus(StrEnum):
    """The status of a shard, as in `jobs.enums`."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


class File(NamedTuple):
    """A stored report, and the try that wrote it."""

    try_number: int
    is_readable: bool


Merged = tuple[tuple[int, File], ...]


class Job(NamedTuple):
    """The row of job A. `result` has the shards of its merged report, each with the file that was read."""

    status: Status = Status.WAITING
    attempt: int = 0
    cancel_requested: bool = False
    lease_is_alive: bool = False
    billed: int = 0
    result: Merged = ()
    # The conductor ended it, or the user while it waited. Otherwise nothing is billed.
    counts: bool = False


class Stage(NamedTuple):
    """The sharded stage. Each attempt adopts the rows of the one before."""

    attempt: int = 0
    allotted: int = 0
    # The status that the job gets once its shards have stopped.
    stop_reason: Status | None = None


class Shard(NamedTuple):
    """A shard. Only its loss depends on its lease, which is over if no worker renews it in time."""

    status: ShardStatus = ShardStatus.WAITING
    try_number: int = 0
    losses: int = 0
    seat: int | None = None
    allowance: int = 0
    billed: int = 0


class Role(StrEnum):
    """Whether a worker can conduct job A, or only help."""

    CONDUCTOR = "conductor"
    HELPER = "helper"


class Phase(StrEnum):
    """What a worker does."""

    # Nothing, or, as the conductor of an attempt, looking for the next step.
    FREE = "free"
    RUNNING_SHARD = "running a shard"
    # The shard has run and its report is stored; its row is not yet known to be written.
    STORED = "stored"
    # The reports are merged; the end of the job is not yet known to be written.
    MERGED = "merged"


class Worker(NamedTuple):
    """A process and what it knows. `attempt` is 0 unless it conducts an attempt or runs one of its shards."""

    role: Role
    phase: Phase = Phase.FREE
    attempt: int = 0
    # Its claim; -1 and 0 if it has none.
    shard: int = -1
    try_number: int = 0
    # How its shard or, once merged, the job ended.
    outcome: str = ""
    used: int = 0
    result: Merged = ()
    # It is paused or cut off, so its leases can expire, but it may go on at any time.
    is_late: bool = False

    @property
    def conducts(self) -> bool:
        """Return whether the worker conducts an attempt, as far as it knows."""
        return self.role == Role.CONDUCTOR and self.attempt > 0


class State(NamedTuple):
    """All rows, files and processes. `files` has the file to which each shard's row leads."""

    job: Job
    stage: Stage
    shards: tuple[Shard, ...]
    files: tuple[File | None, ...]
    # Sorted: states that differ only in the names of equal workers are one.
    workers: tuple[Worker, ...]
    faults_left: int
    # Job B, which has a better priority. While it is absent or runs, it does not matter.
    other_job_waits: bool = False


def first_state(*, faults: int) -> State:
    """Return the state after the submission of job A."""
    workers = (Worker(Role.CONDUCTOR),) * 2 + (Worker(Role.HELPER),) * 2
    return State(Job(), Stage(), (), (), workers, faults)


def with_worker(state: State, index: int, worker: Worker, **changes: Any) -> State:
    """Return the state with a changed worker, and other changes."""
    workers = [*state.workers[:index], worker, *state.workers[index + 1 :]]
    return state._replace(workers=tuple(sorted(workers)), **changes)


def with_shard(state: State, number: int, *, allotted: int, **changes: Any) -> State:
    """Return the state with a changed shard, and `allotted` added to the allotted time."""
    shard = state.shards[number]._replace(**changes)
    shards = (*state.shards[:number], shard, *state.shards[number + 1 :])
    return state._replace(shards=shards, stage=state.stage._replace(allotted=state.stage.allotted + allotted))


def with_file(state: State, number: int, file: File | None) -> State:
    """Return the state with another file of a shard."""
    return state._replace(files=(*state.files[:number], file, *state.files[number + 1 :]))


def free(worker: Worker) -> Worker:
    """Return the worker without its claim of a shard. A conductor still conducts."""
    if worker.conducts:
        return Worker(worker.role, attempt=worker.attempt, is_late=worker.is_late)
    return Worker(worker.role)


def with_ended_attempt(state: State, job: Job) -> State:
    """Return the state after the end of job A's attempt. Its helpers go on until the job has ended."""
    attempt = state.job.attempt
    workers = (
        void(worker)
        if (worker.conducts and worker.attempt == attempt) or (worker.attempt and job.status not in UNFINISHED)
        else worker
        for worker in state.workers
    )
    return state._replace(job=job, workers=tuple(sorted(workers)))


def void(worker: Worker) -> Worker:
    """Return the worker of an ended attempt without irrelevant details: its writes must be rejected anyway."""
    if worker.phase == Phase.STORED:
        return worker._replace(is_late=False, outcome=ShardStatus.DONE, used=1)
    return worker._replace(is_late=False)


def attempt_is_current(state: State, attempt: int) -> bool:
    """Return whether the attempt has not ended."""
    return state.job.status == Status.RUNNING and state.job.attempt == attempt


def stage_is_current(state: State) -> bool:
    """Return whether the stage's rows are not void."""
    return attempt_is_current(state, state.stage.attempt)


def may_go_on(state: State, *, attempt: int, role: str) -> bool:
    """Return whether a worker's try may go on: a conductor's during its attempt, a helper's until the job ends."""
    if role == Role.HELPER:
        return state.job.status in UNFINISHED
    return stage_is_current(state) and state.stage.attempt == attempt


def claim_is_current(state: State, worker: Worker) -> bool:
    """Return whether the worker's try is running according to its row."""
    if worker.shard < 0 or not may_go_on(state, attempt=worker.attempt, role=worker.role):
        return False
    row = state.shards[worker.shard]
    return row.status == ShardStatus.RUNNING and row.try_number == worker.try_number


def unspent(state: State, *, funded: int) -> int:
    """Return the time that can still be allotted."""
    return funded - state.stage.allotted
