"""Steps of shards: they are claimed, extended, run, finished, returned and lost."""

from collections.abc import Iterator

from tests.jobs.shards.model.rules import Model
from tests.jobs.shards.model.state import (
    UNFINISHED,
    File,
    Phase,
    Role,
    ShardStatus,
    State,
    Worker,
    claim_is_current,
    free,
    may_go_on,
    stage_is_current,
    unspent,
    with_file,
    with_shard,
    with_worker,
)
from tests.jobs.shards.model.steps import Kind, Move, Step, Steps, step_of

SLICE = 1


def shard_steps(model: Model, state: State, index: int) -> Steps:
    """Yield a worker's steps with shards."""
    worker = state.workers[index]
    if worker.phase == Phase.FREE:
        yield from claims(model, state, index)
    elif worker.phase == Phase.RUNNING_SHARD:
        yield from extensions(model, state, index)
        yield from ends_of_run(model, state, index)
        yield from returns(model, state, index)
    elif worker.phase == Phase.STORED:
        yield from finishes(model, state, index)


def claims(model: Model, state: State, index: int) -> Steps:
    """Yield the claim of the first claimable shard, after a message and after a periodic check."""
    worker = state.workers[index]
    seat = free_seat(model, state, worker)
    if seat is None or not can_start_shards(model, state, worker):
        return
    number = next(claimable_shards(model, state, worker), None)
    if number is None:
        return
    try_number = state.shards[number].try_number + 1
    after = claimed(model, state, index, number=number, seat=seat)
    step = Step(Kind.SYSTEM, Move.CLAIM_SHARD, worker.role, worker.attempt, number, try_number)
    if not worker.conducts:
        yield step._replace(needs_message=True), after
    if worker.conducts or model.rules.claim_works_without_message:
        yield step, after


def can_start_shards(model: Model, state: State, worker: Worker) -> bool:
    """Return whether the stage allows a claim by this worker."""
    rules, job = model.rules, state.job
    return (
        stage_is_current(state)
        and job.lease_is_alive
        and (not job.cancel_requested or not rules.claim_checks_cancel)
        and state.stage.stop_reason is None
        and (unspent(state, funded=model.bounds.funded) >= SLICE or not rules.claim_checks_funds)
        and (worker.conducts or not state.other_job_waits or not rules.claim_yields_to_jobs)
    )


def free_seat(model: Model, state: State, worker: Worker) -> int | None:
    """Return the conductor's seat for the conductor of the attempt, and the lowest free one for a helper."""
    taken = {shard.seat for shard in state.shards}
    if worker.role == Role.CONDUCTOR:
        return 0 if worker.attempt == state.stage.attempt and 0 not in taken else None
    seats = model.bounds.slots if model.rules.seats_are_limited else len(state.shards)
    return next((seat for seat in range(1, seats) if seat not in taken), None)


def claimable_shards(model: Model, state: State, worker: Worker) -> Iterator[int]:
    """Yield the shards that a worker can claim. Only the conductor runs shard 0."""
    numbers = range(len(state.shards))
    if not worker.conducts:
        numbers = numbers[1:]
    elif not model.rules.conductor_runs_all_shards:
        numbers = numbers[:1]
    for number in numbers:
        status = state.shards[number].status
        if status == ShardStatus.WAITING or (
            status == ShardStatus.RUNNING and not model.rules.claim_takes_waiting_shards
        ):
            yield number


def claimed(model: Model, state: State, index: int, *, number: int, seat: int) -> State:
    """Return the state after a claim, which also shows that the worker is not late."""
    worker, shard = state.workers[index], state.shards[number]
    state = with_shard(
        state,
        number,
        allotted=SLICE - shard.allowance,
        status=ShardStatus.RUNNING,
        try_number=shard.try_number + 1,
        seat=seat,
        allowance=SLICE,
    )
    claim = Worker(
        worker.role,
        Phase.RUNNING_SHARD,
        state.stage.attempt,
        number,
        shard.try_number + 1,
    )
    return with_worker(state, index, claim)


def extensions(model: Model, state: State, index: int) -> Steps:
    """Yield the renewal that extends the allowance."""
    worker, bounds = state.workers[index], model.bounds
    if worker.is_late or not claim_is_current(state, worker) or state.stage.stop_reason:
        return
    allowance = state.shards[worker.shard].allowance
    if allowance < bounds.longest_run and unspent(state, funded=bounds.funded) >= SLICE:
        after = with_shard(state, worker.shard, allotted=SLICE, allowance=allowance + SLICE)
        yield step_of(worker, Move.EXTEND), after


def ends_of_run(model: Model, state: State, index: int) -> Steps:
    """Yield the ends of the simulator's process, and the stored reports."""
    worker = state.workers[index]
    for outcome, used in outcomes(model, state, worker):
        ran = worker._replace(phase=Phase.STORED, outcome=outcome, used=used)
        after = with_worker(state, index, ran)
        if outcome == ShardStatus.FAILED:
            yield step_of(worker, Move.STORE), after
            continue
        yield step_of(worker, Move.STORE), stored(model, after, worker, is_readable=True)
        if state.faults_left and outcome == ShardStatus.DONE:
            unreadable = stored(model, after, worker, is_readable=False)
            step = step_of(worker, Move.STORE_UNREADABLE, kind=Kind.FAULT)
            yield step, unreadable._replace(faults_left=state.faults_left - 1)


def outcomes(model: Model, state: State, worker: Worker) -> Iterator[tuple[ShardStatus, int]]:
    """Yield how a run can end, and the time that it used. For a lost run, one end is enough."""
    if not claim_is_current(state, worker):
        yield ShardStatus.DONE, SLICE
        return
    allowance = state.shards[worker.shard].allowance
    yield ShardStatus.DONE, allowance if model.rules.run_stops_at_allowance else allowance + 1
    if worker.shard == model.bounds.failing_shard:
        yield ShardStatus.FAILED, SLICE
    if must_stop(model, state, allowance=allowance):
        yield ShardStatus.STOPPED, allowance


def must_stop(model: Model, state: State, *, allowance: int) -> bool:
    """Return whether a shard must stop, or has used up an allowance that cannot be extended."""
    bounds = model.bounds
    is_spent = allowance < bounds.longest_run and unspent(state, funded=bounds.funded) < SLICE
    return is_spent or state.job.cancel_requested or state.stage.stop_reason is not None


def stored(model: Model, state: State, worker: Worker, *, is_readable: bool) -> State:
    """Return the state with the report of a worker's try. A file that no row leads to is left out."""
    if not is_read(model, state, worker):
        return state
    return with_file(state, worker.shard, File(worker.try_number, is_readable))


def is_read(model: Model, state: State, worker: Worker) -> bool:
    """Return whether the row of a worker's shard leads to the name of its file."""
    row = state.shards[worker.shard]
    is_current = may_go_on(state, attempt=worker.attempt, role=worker.role)
    if not is_current or row.status == ShardStatus.WAITING:
        return False
    if row.try_number != worker.try_number:
        return not model.rules.file_names_contain_try
    return row.status == ShardStatus.RUNNING or not model.rules.stop_of_waiting_has_no_report


def finishes(model: Model, state: State, index: int) -> Steps:
    """Yield the write of a shard's end, and the same without an answer, after which the worker repeats it."""
    worker = state.workers[index]
    written = finished(model, state, worker)
    yield step_of(worker, Move.FINISH), with_worker(written, index, free(worker))
    if state.faults_left and written != state:
        unanswered = written._replace(faults_left=state.faults_left - 1)
        yield step_of(worker, Move.FINISH_UNANSWERED, kind=Kind.FAULT), unanswered


def finished(model: Model, state: State, worker: Worker) -> State:
    """Return the state with the end of the worker's shard, if the guard accepts it."""
    if not accepts(model, state, worker):
        return state
    allowance = state.shards[worker.shard].allowance
    return with_shard(
        state,
        worker.shard,
        allotted=worker.used - allowance,
        status=ShardStatus(worker.outcome),
        seat=None,
        allowance=0,
        billed=worker.used,
    )


def accepts(model: Model, state: State, worker: Worker) -> bool:
    """Return whether the guard of a shard's end accepts a write: attempt, try and status."""
    rules = model.rules
    if state.job.status not in UNFINISHED:
        return False
    row = state.shards[worker.shard]
    is_current = may_go_on(state, attempt=worker.attempt, role=worker.role)
    return (
        (is_current or not rules.finish_checks_attempt)
        and (row.try_number == worker.try_number or not rules.finish_checks_try)
        and (row.status == ShardStatus.RUNNING or not rules.finish_checks_status)
    )


def returns(model: Model, state: State, index: int) -> Steps:
    """Yield the return of a shard by a helper that must stop."""
    worker = state.workers[index]
    if not state.faults_left or worker.role != Role.HELPER or not claim_is_current(state, worker):
        return
    losses = 0 if model.rules.return_is_free else 1
    after = waiting_again(model, state, worker.shard, losses=losses)
    after = after._replace(faults_left=state.faults_left - 1)
    yield step_of(worker, Move.RETURN, kind=Kind.FAULT), with_worker(after, index, free(worker))


def waiting_again(model: Model, state: State, number: int, *, losses: int) -> State:
    """Return the state in which a shard waits for its next try, which does not read the file of this one."""
    shard = state.shards[number]
    if model.rules.file_names_contain_try:
        state = with_file(state, number, None)
    return with_shard(
        state,
        number,
        allotted=-shard.allowance - shard.billed,
        status=ShardStatus.WAITING,
        losses=shard.losses + losses,
        seat=None,
        allowance=0,
        billed=0,
    )


def losses(model: Model, state: State) -> Steps:
    """Yield the losses of running shards whose lease is over."""
    if not stage_is_current(state) or not model.rules.shard_leases_expire:
        return
    for number, shard in enumerate(state.shards):
        if shard.status == ShardStatus.RUNNING and lease_can_expire(model, state, number):
            step = Step(Kind.SYSTEM, Move.LOSE, shard=number, try_number=shard.try_number)
            yield step, waiting_again(model, state, number, losses=1)


def lease_can_expire(model: Model, state: State, number: int) -> bool:
    """Return whether no worker renews the lease of a running shard."""
    if not model.rules.leases_protect_shards:
        return True
    return not any(
        worker.shard == number and not worker.is_late and claim_is_current(state, worker)
        for worker in state.workers
    )
