"""Reasons for which a simulator process is stopped."""

from enum import StrEnum


class StopReason(StrEnum):
    """Why a simulator process was stopped; stored on its run."""

    # Set by the worker.
    CEILING = "ceiling"  # It used the credits of the job's limit.
    CREDITS = "credits"  # The account has no more credits to reserve.
    CANCELLED = "cancelled"  # A user cancelled the job.
    SHARD_FAILED = "shard_failed"  # Another shard of the job failed.

    # Set by the supervisor and by the reader of the simulator's output.
    OVERTIME = "overtime"  # It ran past its wall-clock limit, and the worker did not stop it.
    OUTPUT_FLOOD = "output_flood"  # It printed more than the limit.
    DISK_FLOOD = "disk_flood"  # Its directory grew beyond the limit.
    MEMORY_LIMIT = "memory_limit"  # Its processes used more memory than the limit.

    # Set by the supervisor, or afterwards by the sweep.
    LOST = "lost"  # Its launcher or its worker died, so the result is unknown.
