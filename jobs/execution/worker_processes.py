"""Worker processes of this machine, and the recovery of jobs of dead workers.

Each worker locks a file in `DATA_DIR/workers` until it ends. The kernel frees the lock however the process ends, so
a file whose lock is free belongs to a dead worker. Process ids are not compared, because they are reused, and
because each container has its own ids.

The file's name contains the id of the machine's boot, because some file systems do not share locks between machines
(`docs/explanation/processes.md#private-directories`). Workers of other machines are therefore never taken for dead.
"""

import logging
import os
import re
import secrets
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from django.conf import settings
from django.db import close_old_connections
from django.db.models import Q

from jobs.enums import CLAIMED
from jobs.execution.directories import try_lock
from jobs.lifecycle import shard_moves
from jobs.models import Job
from jobs.queue import sweep

logger = logging.getLogger(__name__)

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
FORGOTTEN_SECONDS = 24 * 3600
# Host, process id and a random part.
NAME = re.compile(r"[^:]+:[0-9]+:[0-9a-f]{8}")


class WorkerProcess:
    """This process as a worker. Jobs store the name of a slot, which begins with the name of its worker."""

    def __init__(self) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self.lock: BinaryIO | None = None

    def register(self) -> None:
        """Choose a unique name, and lock its file. Without a boot id (not Linux), leases alone recover the jobs."""
        boot = boot_id()
        while boot and self.lock is None:
            self.name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
            _folder().mkdir(parents=True, exist_ok=True)
            # Another starting worker may lock the new file first, to check for a dead worker. Then choose another
            # name.
            self.lock = try_lock(_folder() / f"{boot}.{self.name}")

    def refresh(self) -> None:
        """Set the file's time to now, because programs that clean up temporary folders remove old files."""
        if self.lock is not None:
            os.utime(self.lock.fileno())


def boot_id() -> str:
    """Return the id of this boot of the machine, or an empty text if it is unknown."""
    with suppress(OSError):
        return BOOT_ID.read_text().strip()
    return ""


def _folder() -> Path:
    return settings.DATA_DIR / "workers"


def recover_dead_workers() -> int:
    """Requeue the jobs of dead workers of this machine, or end them if no attempts are left. Return how many.

    Jobs that cannot be recovered now are recovered by the next worker that starts, or when their leases expire.
    """
    return sum(_recover_if_dead(path) for path in sorted(_folder().glob("*")))


def _recover_if_dead(path: Path) -> int:
    """Recover the jobs of a file's worker if it is dead. Return how many, or 0 after an error, which is logged."""
    try:
        if lock := try_lock(path):
            with lock:
                return _recover(path)
    except Exception:
        logger.warning("%r: jobs of this worker wait until their leases expire", str(path), exc_info=True)
        close_old_connections()
    return 0


def _recover(path: Path) -> int:
    """Recover the jobs of a dead worker, remove its file, and return how many were changed.

    A file of an earlier boot or with an unknown name is only removed when it is a day old.
    """
    boot, _, worker = path.name.partition(".")
    recovered = 0
    if boot == boot_id() and NAME.fullmatch(worker):
        recovered = recover_jobs_of(worker)
    elif time.time() - path.stat().st_mtime <= FORGOTTEN_SECONDS:
        return 0
    path.unlink(missing_ok=True)
    return recovered


def recover_jobs_of(worker: str) -> int:
    """Requeue or end the jobs of a dead worker, and requeue its shards. Return how many jobs were changed."""
    shard_moves.lose_shards_of(worker)
    held = Job.objects.filter(status__in=CLAIMED, worker__startswith=f"{worker}:").order_by("id")
    return sum(
        bool(sweep.recover(job, reason=f"{job.worker} was killed", guard=Q(worker=job.worker))) for job in held
    )
