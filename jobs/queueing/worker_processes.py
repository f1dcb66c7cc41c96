"""Worker processes of this machine, and the recovery of jobs of dead workers.

Each worker locks a file in `DATA_DIR/workers` until it ends. The kernel frees the lock however the process ends, so
a file whose lock is free belongs to a dead worker. Process ids are not compared, because they are reused, and
because each container has its own ids.

The file's name contains the id of the machine's boot, because some file systems do not share locks between machines
(`docs/running.md#private-directories`). Workers of other machines are therefore never taken for dead.
"""

import logging
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from django.conf import settings
from django.db.models import Q

from jobs.enums import CLAIMED
from jobs.models import Job
from jobs.queueing import sweep
from jobs.runs.directories import try_lock

logger = logging.getLogger(__name__)

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
FORGOTTEN_SECONDS = 24 * 3600


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


def boot_id() -> str:
    """Return the id of this boot of the machine, or an empty text if it is unknown."""
    with suppress(OSError):
        return BOOT_ID.read_text().strip()
    return ""


def _folder() -> Path:
    return settings.DATA_DIR / "workers"


def recover_dead_workers() -> int:
    """Requeue the jobs of dead workers of this machine, or end them if no attempts are left. Return how many.

    If the database fails, raises its error. The other jobs are recovered by the next worker that starts, or when
    their leases expire.
    """
    recovered = 0
    for path, lock in _free_files():
        boot, _, worker = path.name.partition(".")
        with lock:
            if boot == boot_id():
                recovered += recover_jobs_of(worker)
                path.unlink(missing_ok=True)
            elif time.time() - path.stat().st_mtime > FORGOTTEN_SECONDS:
                path.unlink(missing_ok=True)
    return recovered


def _free_files() -> Iterator[tuple[Path, BinaryIO]]:
    """Lock each file that no process has locked."""
    for path in sorted(_folder().glob("*")):
        with suppress(OSError):  # For example, the file belongs to another user's worker.
            if lock := try_lock(path):
                yield path, lock


def recover_jobs_of(worker: str) -> int:
    """Requeue or end the jobs of a dead worker. Return how many were changed."""
    held = Job.objects.filter(status__in=CLAIMED, worker__startswith=f"{worker}:").order_by("id")
    return sum(
        bool(sweep.recover(job, reason=f"{job.worker} was killed", guard=Q(worker=job.worker))) for job in held
    )
