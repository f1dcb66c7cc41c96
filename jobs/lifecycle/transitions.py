"""The state machine of jobs and shards: which move leads from which statuses to which.

This table is its only spelling: the functions of the package refuse other moves, the SQL statements include the
statuses of its rows, and a test compares it with `docs/reference/state-machine.md`.
"""

from collections.abc import Iterable, Sequence
from enum import Enum

from jobs.enums import ACTIVE, CLAIMED, TERMINAL, WAITING, ShardStatus, Status


class IllegalTransition(Exception):
    """The state machine does not have this move. It is a bug, not a race."""


class Move(Enum):
    """A move of the state machine: the statuses from which it leads, none for a new row, and those to which."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        self.sources = tuple(sources)
        self.targets = tuple(targets)

    @classmethod
    def pairs(cls) -> set[tuple[str, str]]:
        """Return the statuses before and after each move; the status before a new row is an empty text."""
        return {(before, after) for move in cls for before in move.sources or [""] for after in move.targets}

    @classmethod
    def fragments(cls) -> dict[str, str]:
        """Return the statuses of each move in SQL, such as `claim_job_from` and `claim_job_to`, for `IN`."""
        kind = cls.__name__.removesuffix("Move").lower()
        return {
            f"{move.name.lower()}_{kind}_{side}": sql_list(statuses)
            for move in cls
            for side, statuses in (("from", move.sources), ("to", move.targets))
            if statuses
        }


class JobMove(Move):
    """The moves of a job."""

    # The submission stores the job.
    SUBMIT = ((), (Status.PENDING,))
    # A message to the workers announces the job.
    ANNOUNCE = ((Status.PENDING,), (Status.QUEUED,))
    # A worker takes the job: a new attempt with a lease.
    CLAIM = (WAITING, (Status.STARTING,))
    # The first simulator process of the attempt starts, or it continues a stage of an earlier one.
    START = ((Status.STARTING,), (Status.RUNNING,))
    # The attempt starts stages again, because it cannot continue those of an earlier one. The status stays.
    RESTART_EARLY = ((Status.STARTING,), (Status.STARTING,))
    RESTART = ((Status.RUNNING,), (Status.RUNNING,))
    # The attempt is lost or given up, and another attempt can follow.
    REQUEUE = (CLAIMED, (Status.QUEUED,))
    # The job ends without an attempt: it was cancelled, waited too long, or has no build.
    ABANDON = (WAITING, (Status.FAILED, Status.CANCELLED))
    # The attempt ends, or it was lost and no other attempt can follow.
    END = (CLAIMED, TERMINAL)


class ShardMove(Move):
    """The moves of a shard."""

    # The conductor splits a stage.
    CREATE = ((), (ShardStatus.WAITING,))
    # A slot takes the shard: a new try with a lease and an allowance. Its losses count until the next attempt.
    CLAIM = ((ShardStatus.WAITING,), (ShardStatus.RUNNING,))
    # The try ends: its report is stored, it was stopped, or it failed.
    END = ((ShardStatus.RUNNING,), (ShardStatus.DONE, ShardStatus.STOPPED, ShardStatus.FAILED))
    # The try is lost or given up, and another try can follow.
    RETURN = ((ShardStatus.RUNNING,), (ShardStatus.WAITING,))
    # The report of the try cannot be used.
    REJECT = ((ShardStatus.DONE,), (ShardStatus.WAITING,))


def require(before: str, after: str, *moves: Move) -> None:
    """Raise IllegalTransition unless one of the moves leads from a status to another."""
    if not any(before in move.sources and after in move.targets for move in moves):
        raise IllegalTransition(f"{before} → {after}")


def sql_list(statuses: Iterable[str]) -> str:
    """Return statuses as a list in SQL, for `IN`. A list of one status is also a value."""
    return "(" + ", ".join(f"'{status}'" for status in statuses) + ")"


# Fragments of SQL with the statuses of each group
GROUPS = {
    "waiting": sql_list(WAITING),
    "claimed": sql_list(CLAIMED),
    "active": sql_list(ACTIVE),
}
