"""Why the sandbox stops a program by itself."""

from enum import StrEnum


class SandboxStop(StrEnum):
    """Why the sandbox stopped a program. Callers can stop it for reasons of their own."""

    OVERTIME = "overtime"  # It ran past its wall-clock limit, and the caller did not stop it.
    OUTPUT_FLOOD = "output_flood"  # It printed more than the limit.
    DISK_FLOOD = "disk_flood"  # Its directory grew beyond the limit.
    MEMORY_LIMIT = "memory_limit"  # Its processes used more memory than the limit.
    LOST = "lost"  # Its launcher or its caller died, so the result is unknown.
