"""The invariants as predicates of a state with its steps, or of a step between two states.

`Invariant.PROGRESS` is a property of the whole graph, which the explorer checks.
"""

from collections.abc import Callable, Sequence

from tests.jobs.shards.model.rules import Model
from tests.jobs.shards.model.shard_steps import SLICE
from tests.jobs.shards.model.state import (
    UNFINISHED,
    Phase,
    Role,
    ShardStatus,
    State,
    Status,
    Worker,
    attempt_is_current,
    may_go_on,
    stage_is_current,
    unspent,
)
from tests.jobs.shards.model.steps import Move, Step
from tests.shard_invariants import Invariant

Following = Sequence[tuple[Step, State]]


def one_try(model: Model, state: State, following: Following) -> bool:
    """Return whether no shard is run by two workers that may go on and renew their leases in time."""
    running = [
        worker.shard
        for worker in state.workers
        if worker.phase == Phase.RUNNING_SHARD
        and not worker.is_late
        and may_go_on(state, attempt=worker.attempt, role=worker.role)
    ]
    return len(running) == len(set(running))


def seats(model: Model, state: State, following: Following) -> bool:
    """Return whether running shards have different seats, and no more than there are slots."""
    taken = [shard.seat for shard in state.shards if shard.status == ShardStatus.RUNNING]
    return len(taken) == len(set(taken)) and len(taken) <= model.bounds.slots


def complete(model: Model, state: State, following: Following) -> bool:
    """Return whether a completed job consists of the report of each shard's counting try, once."""
    if state.job.status != Status.COMPLETED:
        return True
    counting = [
        (number, shard.try_number, True)
        for number, shard in enumerate(state.shards)
        if shard.status == ShardStatus.DONE
    ]
    return len(counting) == model.bounds.shards and counting == [
        (number, *file) for number, file in state.job.result
    ]


def is_billed(model: Model, state: State, following: Following) -> bool:
    """Return whether the bill is the time of the counting tries, or nothing if the last attempt was lost."""
    job = state.job
    counting = sum(shard.billed for shard in state.shards) if job.counts else 0
    return job.status in UNFINISHED or job.billed == counting <= model.bounds.funded


def allowances(model: Model, state: State, following: Following) -> bool:
    """Return whether the allotted time is that of all shards, and is funded."""
    allotted = sum(shard.billed + shard.allowance for shard in state.shards)
    return allotted == state.stage.allotted <= model.bounds.funded


def busy_conductor(model: Model, state: State, following: Following) -> bool:
    """Return whether the conductor can claim a shard if it is free and a shard could start in its slot."""
    if not could_start(model, state):
        return True
    waits = any(is_free_conductor(state, worker) for worker in state.workers)
    return not waits or any(step.move == Move.CLAIM_SHARD and step.attempt for step, _ in following)


def could_start(model: Model, state: State) -> bool:
    """Return whether a waiting shard may start in the conductor's slot, whichever rule is broken."""
    return (
        stage_is_current(state)
        and state.job.lease_is_alive
        and not state.job.cancel_requested
        and state.stage.stop_reason is None
        and unspent(state, funded=model.bounds.funded) >= SLICE
        and any(shard.status == ShardStatus.WAITING for shard in state.shards)
        and all(shard.seat != 0 for shard in state.shards)
    )


def is_free_conductor(state: State, worker: Worker) -> bool:
    """Return whether the worker conducts the current attempt and runs nothing."""
    return worker.conducts and worker.attempt == state.job.attempt and worker.phase == Phase.FREE


def messages(model: Model, state: State, following: Following) -> bool:
    """Return whether each step that a message causes is also possible without one."""
    return all(
        (step._replace(needs_message=False), after) in following for step, after in following if step.needs_message
    )


def end_is_final(before: State, step: Step, after: State) -> bool:
    """Return whether an ended job, or a job of another attempt than the conductor's step, is unchanged."""
    has_ended = before.job.status not in UNFINISHED
    is_void = step.attempt and not attempt_is_current(before, step.attempt)
    return after.job == before.job if has_ended or is_void else True


def queue_order(before: State, step: Step, after: State) -> bool:
    """Return whether no helper claims a shard while job B, which has a better priority, waits."""
    is_help = step.move == Move.CLAIM_SHARD and not step.attempt
    return not is_help or not before.other_job_waits


def cancel(before: State, step: Step, after: State) -> bool:
    """Return whether no shard is claimed after a request to cancel."""
    return step.move != Move.CLAIM_SHARD or not before.job.cancel_requested


def zombie(before: State, step: Step, after: State) -> bool:
    """Return whether a step under a lost claim changes neither the rows of the stage and its shards nor a file."""
    if not lost_its_claim(before, step):
        return True
    return (before.stage, before.shards, before.files) == (after.stage, after.shards, after.files)


def lost_its_claim(state: State, step: Step) -> bool:
    """Return whether the step's worker must stop, or its try is outdated, or neither running nor billed."""
    if not step.attempt:
        return False
    is_helper = step.role == Role.HELPER
    if not (state.job.status in UNFINISHED if is_helper else attempt_is_current(state, step.attempt)):
        return True
    if step.shard < 0 or step.move == Move.CLAIM_SHARD:
        return False
    shard = state.shards[step.shard]
    counts = shard.status == ShardStatus.RUNNING or shard.billed
    return not counts or shard.try_number != step.try_number


def free_return(before: State, step: Step, after: State) -> bool:
    """Return whether a returned shard has no more losses than before."""
    if step.move != Move.RETURN:
        return True
    return [shard.losses for shard in before.shards] == [shard.losses for shard in after.shards]


STATE_CHECKS: dict[Invariant, Callable[[Model, State, Following], bool]] = {
    Invariant.ONE_TRY: one_try,
    Invariant.SEATS: seats,
    Invariant.COMPLETE: complete,
    Invariant.BILL: is_billed,
    Invariant.ALLOWANCES: allowances,
    Invariant.BUSY_CONDUCTOR: busy_conductor,
    Invariant.MESSAGES: messages,
}
STEP_CHECKS: dict[Invariant, Callable[[State, Step, State], bool]] = {
    Invariant.END_IS_FINAL: end_is_final,
    Invariant.QUEUE_ORDER: queue_order,
    Invariant.CANCEL: cancel,
    Invariant.ZOMBIE: zombie,
    Invariant.FREE_RETURN: free_return,
}
