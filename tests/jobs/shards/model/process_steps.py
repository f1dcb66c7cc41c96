"""Steps of processes: claims of job B, faults, and their consequences. `steps` yields all steps of a state."""

from tests.jobs.shards.model.job_steps import conductor_steps, requests, sweeps
from tests.jobs.shards.model.rules import Model
from tests.jobs.shards.model.shard_steps import losses, shard_steps
from tests.jobs.shards.model.state import (
    Phase,
    State,
    Worker,
    attempt_is_current,
    claim_is_current,
    free,
    with_worker,
)
from tests.jobs.shards.model.steps import Kind, Move, Step, Steps, step_of


def steps(model: Model, state: State) -> Steps:
    """Yield all steps of a state. Equal workers have the same steps."""
    for index, worker in enumerate(state.workers):
        if index and worker == state.workers[index - 1]:
            continue
        yield from conductor_steps(model, state, index)
        yield from shard_steps(model, state, index)
        yield from other_job(state, index)
        yield from notices(state, index)
        yield from faults(state, index)
    yield from losses(model, state)
    yield from sweeps(model, state)
    yield from requests(state)


def other_job(state: State, index: int) -> Steps:
    """Yield the claim of job B. Its worker is free again at once, since a free worker can be slow anyway."""
    worker = state.workers[index]
    if worker == Worker(worker.role) and state.other_job_waits:
        yield Step(Kind.SYSTEM, Move.CLAIM_OTHER, worker.role), state._replace(other_job_waits=False)


def notices(state: State, index: int) -> Steps:
    """Yield the renewal of a late worker, and the step of a worker that notices its lost claim."""
    worker = state.workers[index]
    if not worker.attempt:
        return
    if worker.conducts and not attempt_is_current(state, worker.attempt):
        yield step_of(worker, Move.ABANDON), with_worker(state, index, Worker(worker.role))
    elif worker.phase == Phase.RUNNING_SHARD and not claim_is_current(state, worker):
        yield step_of(worker, Move.ABANDON), with_worker(state, index, free(worker))
    elif worker.is_late and (worker.conducts or claim_is_current(state, worker)):
        job = state.job._replace(lease_is_alive=True) if worker.conducts else state.job
        after = with_worker(state, index, worker._replace(is_late=False), job=job)
        yield step_of(worker, Move.RENEW), after


def faults(state: State, index: int) -> Steps:
    """Yield the crash and the pause of a worker."""
    worker = state.workers[index]
    if not state.faults_left or worker == Worker(worker.role):
        return
    left = state.faults_left - 1
    after = with_worker(state, index, Worker(worker.role), faults_left=left)
    yield Step(Kind.FAULT, Move.CRASH, worker.role), after
    if worker.attempt and not worker.is_late:
        after = with_worker(state, index, worker._replace(is_late=True), faults_left=left)
        yield Step(Kind.FAULT, Move.PAUSE, worker.role), after
