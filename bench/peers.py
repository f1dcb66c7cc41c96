"""No-op tasks of other task queues: Procrastinate (PostgreSQL) and Celery (Redis, no results)."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

from bench.figures import Value, Values
from bench.machine import ROOT
from bench.stores import Stores

PACKAGES = Path(__file__).parent / ".peers"
REQUIREMENTS = Path(__file__).with_name("peers.txt")
DATABASE = "peers"


class NotInstalled(Exception):
    """A peer cannot be installed, for example without a network."""


def rates(stores: Stores, *, jobs: int) -> Values:
    """Return no-ops per second of each peer, with the same servers."""
    celery = _run("bench.peer_celery", stores.redis_url, jobs=jobs)
    try:
        procrastinate = _procrastinate(stores, jobs=jobs)
    except NotInstalled as error:
        procrastinate = Value(None, str(error))
    return {"peers.celery": celery, "peers.procrastinate": procrastinate}


def _procrastinate(stores: Stores, *, jobs: int) -> Value:
    """Run Procrastinate on a database of its own. Raises NotInstalled."""
    install()
    with psycopg.connect(stores.database_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        connection.execute(f"CREATE DATABASE {DATABASE}")
    url = urlunsplit(urlsplit(stores.database_url)._replace(path=f"/{DATABASE}"))
    return _run("bench.peer_procrastinate", url, jobs=jobs, packages=PACKAGES)


def _run(module: str, url: str, *, jobs: int, packages: Path | None = None) -> Value:
    """Run a peer in a new process and return its rate."""
    path = os.pathsep.join(map(str, [packages, ROOT] if packages else [ROOT]))
    command = [sys.executable, "-m", module, url, str(jobs)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True, check=True
    )
    result = json.loads(done.stdout.splitlines()[-1])
    return Value(result["rate"], f"{jobs:,} no-ops, {result['cpuMs']:.2f} CPU ms each")


def install() -> None:
    """Install the peers' packages unless they are up to date. Raises NotInstalled."""
    marker, wanted = PACKAGES / "installed.txt", REQUIREMENTS.read_text()
    if marker.exists() and marker.read_text() == wanted:
        return
    shutil.rmtree(PACKAGES, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(PACKAGES)]
    done = subprocess.run(
        [*command, "--requirement", str(REQUIREMENTS)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise NotInstalled(f"Procrastinate could not be installed: {reason[0]}")
    marker.write_text(wanted)
