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

from jobs.models import Job
from simservice import worker_heartbeats
from tests.waiting import wait_until

CELERY = [str(Path(sys.executable).with_name("celery")), "--app", "simservice"]
# A simulation worker, as in the Procfile
ARGUMENTS = ["worker", "--queues", "sim.high,sim.standard,sim.background", "--pool", "threads", "--without-mingle"]
WORKER = [*CELERY, *ARGUMENTS, "--concurrency", "1"]
# The other processes
CONTROL = [*CELERY, "worker", "--queues", "control", "--pool", "threads", "--concurrency", "4"]
BEAT = [*CELERY, "beat"]
WEBHOOKS = [*CELERY, "worker", "--queues", "webhooks", "--pool", "threads", "--concurrency", "1"]
# A worker with a changed function.
CHANGED = f"""
import sys, time
import django
django.setup()
from simservice.celery import app
from jobs.execution import simulation_worker
{{change}}
sys.argv = {WORKER}
from celery.__main__ import main
main()
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


def status_of(job: Job) -> str:
    return Job.objects.values_list("status", flat=True).get(pk=job.pk)


def wait_until_alive(process: "subprocess.Popen[str]") -> str:
    """Wait for a worker's first heartbeat. Return the worker's name."""
    name = f"sim@{socket.gethostname()}-{process.pid}"
    wait_until(lambda: name in [alive.name for alive in worker_heartbeats.simulation_workers()])
    return name
