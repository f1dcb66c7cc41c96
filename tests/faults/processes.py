"""Start queue workers on the test's database, and find running programs."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from django.conf import settings
from django.db import connection

# A lease that expires soon.
# With shorter leases, a busy worker would lose its job.
QUICK = {"LEASE_SECONDS": "4", "HEARTBEAT_SECONDS": "1"}
ORDINARY: Mapping[str, str] = {}


def start_worker(
    *, slots: int = 1, point: str = "", chosen: Mapping[str, str] = ORDINARY
) -> subprocess.Popen[bytes]:
    """Start a worker that runs jobs until none is left or kills itself at a point; `chosen` are its settings."""
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    environment = os.environ | {"DATABASE_URL": url, "LOG_LEVEL": "ERROR", **chosen}
    command = [sys.executable, "-m", "tests.faults.queue_worker", str(slots), *([point] if point else [])]
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
