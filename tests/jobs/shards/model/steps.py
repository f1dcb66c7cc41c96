"""A step from one state to another."""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from tests.jobs.shards.model.state import State, Worker


class Kind(StrEnum):
    """What a step is. Only the system's own steps must lead to the end of a job."""

    SYSTEM = "system"
    USER = "user"
    FAULT = "fault"


class Move(StrEnum):
    """What happens in a step."""

    CLAIM_JOB = "claims job A"
    CREATE_SHARDS = "creates the shards"
    ADOPT_SHARDS = "adopts the shards"
    CLAIM_SHARD = "claims"
    EXTEND = "extends the allowance"
    STORE = "ends the run and stores the report"
    STORE_UNREADABLE = "ends the run and stores an unreadable report"
    FINISH = "writes the end"
    FINISH_UNANSWERED = "writes the end without an answer"
    RETURN = "stops and returns the shard"
    LOSE = "the lease expires and the shard is lost"
    REJECT = "rejects a report"
    STOP = "stops the shards"
    MERGE = "merges the reports"
    END_JOB = "ends job A"
    END_JOB_UNANSWERED = "ends job A without an answer"
    GIVE_UP = "gives up the attempt"
    EXPIRE = "the lease of job A expires"
    SWEEP = "the sweep recovers job A"
    CANCEL = "the user cancels job A"
    SUBMIT = "job B is submitted, or lost, and waits"
    CLAIM_OTHER = "claims job B"
    CRASH = "crashes and restarts"
    PAUSE = "is paused or cut off"
    RENEW = "renews its lease in time again"
    ABANDON = "notices that its claim is lost"


class Step(NamedTuple):
    """A step, its worker, and the claim with which the worker acts: attempt 0 and shard -1 if it needs none."""

    kind: Kind
    move: Move
    role: str = ""
    attempt: int = 0
    shard: int = -1
    try_number: int = 0
    # Whether it needs a message, which can be lost with Redis.
    needs_message: bool = False

    def __str__(self) -> str:
        shard = f" [shard {self.shard}, try {self.try_number}]" if self.shard >= 0 else ""
        attempt = f" [attempt {self.attempt}]" if self.attempt else ""
        return f"{self.role} {self.move}{attempt}{shard}".strip()


Steps = Iterator[tuple[Step, State]]


def step_of(worker: Worker, move: Move, *, kind: Kind = Kind.SYSTEM) -> Step:
    """Return a worker's step under its claim."""
    return Step(kind, move, worker.role, worker.attempt, worker.shard, worker.try_number)
