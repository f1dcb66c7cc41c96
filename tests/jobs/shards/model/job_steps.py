"""Steps of job A: it is claimed, cut, conducted, ended and recovered."""

from collections.abc import Iterator

from tests.jobs.shards.model.rules import Model
from tests.jobs.shards.model.shard_steps import SLICE, waiting_again
from tests.jobs.shards.model.state import (
    UNFINISHED,
    File,
    Job,
    Phase,
    Role,
    Shard,
    ShardStatus,
    Stage,
    State,
    Status,
    Worker,
    attempt_is_current,
    stage_is_current,
    unspent,
    with_ended_attempt,
    with_worker,
)
from tests.jobs.shards.model.steps import Kind, Move, Step, Steps, step_of

OPEN = (ShardStatus.WAITING, ShardStatus.RUNNING)


def conductor_steps(model: Model, state: State, index: int) -> Steps:
    """Yield the steps of a worker that conducts, or can conduct, job A."""
    worker = state.workers[index]
    if worker.phase == Phase.MERGED:
        yield from ends(model, state, index)
    elif worker.role == Role.CONDUCTOR and worker.phase == Phase.FREE:
        if not worker.attempt:
            yield from job_claims(state, index)
        elif state.stage.attempt != worker.attempt:
            yield from (adoption if state.shards else creation)(model, state, worker)
        else:
            yield from rejections(model, state, worker)
            yield from stops(model, state, worker)
            yield from merges(model, state, index)
            yield from lost_attempts(model, state, worker)


def job_claims(state: State, index: int) -> Steps:
    """Yield the claim of job A. Job B, which has a better priority, comes first."""
    if state.job.status == Status.WAITING and not state.other_job_waits:
        attempt = state.job.attempt + 1
        job = Job(Status.RUNNING, attempt, lease_is_alive=True)
        worker = Worker(Role.CONDUCTOR, attempt=attempt)
        yield Step(Kind.SYSTEM, Move.CLAIM_JOB, worker.role), with_worker(state, index, worker, job=job)


def creation(model: Model, state: State, worker: Worker) -> Steps:
    """Yield the creation of the stage and its shards."""
    if attempt_is_current(state, worker.attempt) and state.job.lease_is_alive:
        shards = (Shard(),) * model.bounds.shards
        after = state._replace(stage=Stage(worker.attempt), shards=shards, files=(None,) * len(shards))
        yield step_of(worker, Move.CREATE_SHARDS), after


def adoption(model: Model, state: State, worker: Worker) -> Steps:
    """Yield the adoption of the stage of an earlier attempt. Helpers go on; what its conductor ran waits again."""
    is_current = attempt_is_current(state, worker.attempt) and state.job.lease_is_alive
    if not is_current and model.rules.adoption_checks_attempt:
        return
    after = state._replace(stage=state.stage._replace(attempt=worker.attempt))
    for number, shard in enumerate(state.shards):
        if shard.status == ShardStatus.RUNNING and shard.seat == 0:
            after = waiting_again(model, after, number, losses=0)
            if not model.rules.adoption_frees_allowances:
                allotted = after.stage.allotted + shard.allowance
                after = after._replace(stage=after.stage._replace(allotted=allotted))
    shards = tuple(shard._replace(losses=0) for shard in after.shards)
    yield step_of(worker, Move.ADOPT_SHARDS), after._replace(shards=shards)


def rejections(model: Model, state: State, worker: Worker) -> Steps:
    """Yield the rejection of each report that cannot be read. Its shard runs again."""
    if not stage_is_current(state):
        return
    for number, shard in enumerate(state.shards):
        if shard.status == ShardStatus.DONE and readable(state, number) is None:
            yield step_of(worker, Move.REJECT), waiting_again(model, state, number, losses=1)


def readable(state: State, number: int) -> File | None:
    """Return the report of a shard, or None if it cannot be read."""
    file = state.files[number]
    return file if file and file.is_readable else None


def stops(model: Model, state: State, worker: Worker) -> Steps:
    """Yield the step that stops waiting shards and requests the stop of running ones."""
    reason = state.stage.stop_reason or stop_reason(model, state)
    waits = any(shard.status == ShardStatus.WAITING for shard in state.shards)
    if not reason or not stage_is_current(state) or (state.stage.stop_reason and not waits):
        return
    shards = tuple(
        shard._replace(status=ShardStatus.STOPPED) if shard.status == ShardStatus.WAITING else shard
        for shard in state.shards
    )
    stage = state.stage._replace(stop_reason=reason)
    yield step_of(worker, Move.STOP), state._replace(stage=stage, shards=shards)


def stop_reason(model: Model, state: State) -> Status | None:
    """Return why the shards must stop: a failure, a cancellation, or the cap."""
    statuses = {shard.status for shard in state.shards}
    if ShardStatus.FAILED in statuses:
        return Status.FAILED
    if state.job.cancel_requested:
        return Status.CANCELLED
    is_short = ShardStatus.WAITING in statuses and unspent(state, funded=model.bounds.funded) < SLICE
    if ShardStatus.STOPPED in statuses or (is_short and ShardStatus.RUNNING not in statuses):
        return Status.CAPPED
    return None


def merges(model: Model, state: State, index: int) -> Steps:
    """Yield the merge of all reports, or, after a stop, of those that exist."""
    worker, reason = state.workers[index], state.stage.stop_reason
    if not (is_stopped(state) if reason else is_done(model, state)):
        return
    result = tuple(reports(state))
    if not model.rules.merge_reads_each_shard_once:
        result += result[-1:]
    outcome = reason or Status.COMPLETED
    merged = worker._replace(phase=Phase.MERGED, outcome=outcome, result=result)
    yield step_of(worker, Move.MERGE), with_worker(state, index, merged)


def is_stopped(state: State) -> bool:
    """Return whether no shard is left to run."""
    return not any(shard.status in OPEN for shard in state.shards)


def is_done(model: Model, state: State) -> bool:
    """Return whether all shards are done and all reports can be read."""
    done = [
        shard.status == ShardStatus.DONE and readable(state, number) is not None
        for number, shard in enumerate(state.shards)
    ]
    return all(done) if model.rules.merge_waits_for_all else sum(done) >= len(done) - 1


def reports(state: State) -> Iterator[tuple[int, File]]:
    """Yield the reports to merge, with their shards."""
    for number, shard in enumerate(state.shards):
        file = readable(state, number)
        if file and shard.status in (ShardStatus.DONE, ShardStatus.STOPPED):
            yield number, file


def ends(model: Model, state: State, index: int) -> Steps:
    """Yield the write of the job's end, and the same without an answer, after which the conductor repeats it."""
    worker = state.workers[index]
    freed = with_worker(state, index, Worker(worker.role))
    if not attempt_is_current(state, worker.attempt) and model.rules.job_end_checks_attempt:
        yield step_of(worker, Move.END_JOB), freed
        return
    job = ended_job(state.job, Status(worker.outcome))
    job = job._replace(billed=bill(model, state), result=worker.result, counts=True)
    yield step_of(worker, Move.END_JOB), with_ended_attempt(freed, job)
    if state.faults_left:
        unanswered = with_ended_attempt(state, job)._replace(faults_left=state.faults_left - 1)
        yield step_of(worker, Move.END_JOB_UNANSWERED, kind=Kind.FAULT), unanswered


def ended_job(job: Job, status: Status) -> Job:
    """Return the row of a job that has ended. Nothing is billed."""
    return Job(status, job.attempt, job.cancel_requested)


def bill(model: Model, state: State) -> int:
    """Return the time that is billed when the conductor ends the job."""
    lost = 0 if model.rules.bill_ignores_lost_tries else SLICE
    return sum(shard.billed + lost * shard.losses for shard in state.shards)


def lost_attempts(model: Model, state: State, worker: Worker) -> Steps:
    """Yield the end of an attempt in which a shard was lost too often."""
    is_lost = any(shard.losses >= model.bounds.losses for shard in state.shards)
    if is_lost and attempt_is_current(state, worker.attempt):
        after = with_ended_attempt(state, recovered(model, state.job))
        yield step_of(worker, Move.GIVE_UP), after


def recovered(model: Model, job: Job) -> Job:
    """Return the row of a job whose attempt was lost: it waits again unless it ends."""
    if job.cancel_requested:
        return ended_job(job, Status.CANCELLED)
    if job.attempt >= model.bounds.attempts:
        return ended_job(job, Status.FAILED)
    return Job(Status.WAITING, job.attempt)


def sweeps(model: Model, state: State) -> Steps:
    """Yield the expiry of job A's lease, and the recovery that follows."""
    job = state.job
    if job.status != Status.RUNNING:
        return
    if not job.lease_is_alive:
        yield Step(Kind.SYSTEM, Move.SWEEP), with_ended_attempt(state, recovered(model, job))
    elif not any(
        worker.conducts and worker.attempt == job.attempt and not worker.is_late for worker in state.workers
    ):
        yield Step(Kind.SYSTEM, Move.EXPIRE), state._replace(job=job._replace(lease_is_alive=False))


def requests(state: State) -> Steps:
    """Yield the user's requests: cancel job A, and submit job B."""
    job = state.job
    if job.status == Status.WAITING:
        billed = sum(shard.billed for shard in state.shards)
        ended = ended_job(job, Status.CANCELLED)._replace(billed=billed, counts=True)
        yield Step(Kind.USER, Move.CANCEL), state._replace(job=ended)
    elif job.status == Status.RUNNING and not job.cancel_requested:
        yield Step(Kind.USER, Move.CANCEL), state._replace(job=job._replace(cancel_requested=True))
    if job.status in UNFINISHED and not state.other_job_waits:
        yield Step(Kind.USER, Move.SUBMIT), state._replace(other_job_waits=True)
