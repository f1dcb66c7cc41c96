"""Start queue workers on the test's database, kill them, recover their jobs, and find running programs."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from django.conf import settings
from django.db import connection

from jobs.enums import TERMINAL, WAITING
from jobs.models import Job
from jobs.queue import sweep
from tests.waiting import wait_until

# A lease that expires soon.
# With shorter leases, a busy worker would lose its job.
QUICK = {"LEASE_SECONDS": "4", "HEARTBEAT_SECONDS": "1"}
ORDINARY: Mapping[str, str] = {}


def start_worker(
    *, slots: int = 1, point: str = "", after_a_shard: bool = False, chosen: Mapping[str, str] = ORDINARY
) -> subprocess.Popen[bytes]:
    """Start a worker that runs jobs until none is left or kills itself at a point; `chosen` are its settings.

    With `after_a_shard`, it kills itself only once a shard is done.
    """
    assert point or not after_a_shard
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    environment = os.environ | {"DATABASE_URL": url, "LOG_LEVEL": "ERROR", **chosen}
    command = [
        sys.executable,
        "-m",
        "tests.faults.queue_worker",
        str(slots),
        *([point] if point else []),
        *(["shard"] if after_a_shard else []),
    ]
    return subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment)


def running(executable: Path) -> list[psutil.Process]:
    """Return the live processes whose command line names a program."""
    matches = []
    for process in psutil.process_iter(["cmdline", "status"]):
        arguments = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(
            str(executable) in argument for argument in arguments
        ):
            matches.append(process)
    return matches


def kill_worker(point: str, simulator: Path, *, after_a_shard: bool = False) -> None:
    """Start a worker that kills itself at a point; return when its simulator and its statements have ended too."""
    worker = start_worker(point=point, after_a_shard=after_a_shard, chosen=QUICK)
    assert worker.wait(60) == -signal.SIGKILL
    wait_until(lambda: not running(simulator) and active_sessions() == 0, seconds=10)


def active_sessions() -> int:
    """Return how many other sessions execute a statement."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'"
            " AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


def recover() -> None:
    """Sweep until the killed worker's lease has expired and the job waits again or has ended."""

    def is_back() -> bool:
        sweep.recover_expired_leases()
        return Job.objects.get().status in (*WAITING, *TERMINAL)

    wait_until(is_back, seconds=20)
