"""The invariants of sharded jobs, checked by the model in `tests/jobs/shards` and by the fault suite."""

from enum import Enum


class Invariant(Enum):
    """A statement that holds at all times, whatever fails."""

    ONE_TRY = "At most one try of a shard is running."
    SEATS = "An attempt has at most as many running shards as its job has slots."
    END_IS_FINAL = "After an attempt has ended, nothing changes its job, its bill or its artifacts."
    COMPLETE = "A completed job has finished all planned shards and contains each profileset exactly once."
    BILL = "A job is billed the wall time of the tries that count, rounded up once, and at most what it holds."
    ALLOWANCES = "The time of ended shards and the allowances of running shards never exceed what the job holds."
    QUEUE_ORDER = "No shard starts on a free slot while a job of its priority or a better one could start there."
    BUSY_CONDUCTOR = "A conductor waits only if none of its shards can start."
    PROGRESS = "An unfinished shard ends, or its attempt does, within a bounded number of leases."
    CANCEL = "After a cancellation has been seen, no shard of the job starts."
    ZOMBIE = "A process that lost its lease changes neither a row nor a file."
    FREE_RETURN = "A shard that is returned by a stopping worker is not counted as lost."
    MESSAGES = "Emptying Redis changes only the timing."

    @property
    def number(self) -> int:
        """Return the number of the invariant, from 1 to 13."""
        return list(Invariant).index(self) + 1

    def __str__(self) -> str:
        return f"{self.number}. {self.value}"
