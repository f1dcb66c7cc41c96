"""Processes that run a simulation worker on the test's database and Redis."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connection

from simservice.redis import worker_heartbeats
from tests.jobs.simulators import wait_until

WORKER = ["-m", "simservice.worker", "sim", "--queues", "sim"]
# A worker with a changed function.
CHANGED = """
import sys, time
from simservice import worker
import django
django.setup()
from jobs import simulation_worker
{change}
sys.exit(worker.main(["sim", "--queues", "sim"]))
"""


@contextmanager
def worker(
    folder: Path, *program: str, log: IO[bytes] | None = None, **variables: str
) -> Iterator[subprocess.Popen[str]]:
    """Run a worker with one slot on the test's database, or a program that runs such a worker.

    `variables` are added to its environment.
    """
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    environment = os.environ | {"DATABASE_URL": url, "SANDBOX": "auto", "DATA_DIR": str(folder)} | variables
    command = [sys.executable, *(program or WORKER)]
    with subprocess.Popen(
        command, cwd=settings.BASE_DIR, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until_alive(process: "subprocess.Popen[str]") -> str:
    """Wait for a worker's first heartbeat. Return the worker's name."""
    name = f"sim@{socket.gethostname()}-{process.pid}"
    wait_until(lambda: name in [alive.name for alive in worker_heartbeats.simulation_workers()])
    return name
