"""The lab: a local stack in a temporary folder, on whose database Django is set up in this process.

PostgreSQL writes to disk before it responds, as in production.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django
import psutil
from django.db import connection, connections

ROOT = Path(__file__).parents[1]
SLOTS = 4
DRAIN_SECONDS = 600.0
OWN_SETTINGS = ("DATABASE_URL", "REDIS_URL", "DATA_DIR", "SECRET_KEY", "DJANGO_SETTINGS_MODULE", "PUBLIC_BASE_URL")
# The simulator names its actor after the Unix time of its start.
STARTED = "(summary->'mainActor'->>'name')::float8"
ACTIVE = "SELECT count(*) FROM jobs_job WHERE completed_at IS NULL"
FAILED = "SELECT count(*) FROM jobs_job WHERE status IN ('failed', 'cancelled', 'timed_out')"


@dataclass(frozen=True, kw_only=True)
class LocalStack:
    """A running stack: its address, data folder, and the parent of its processes."""

    url: str
    folder: Path
    supervisor: psutil.Process

    def drain(self) -> None:
        """Wait until every job has ended. Raises TimeoutError after DRAIN_SECONDS."""
        deadline = time.monotonic() + DRAIN_SECONDS
        while left := number(ACTIVE):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{left:.0f} jobs have not ended after {DRAIN_SECONDS:.0f} s")
            time.sleep(0.02)


def clean_up_when_terminated() -> None:
    """Raise SystemExit on SIGTERM, so that this process stops its stack and removes its folder."""

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)


def column(query: str, *values: Any) -> list[float]:
    """Return the numbers of a query's first column."""
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return [float(row[0] or 0) for row in cursor]


def number(query: str, *values: Any) -> float:
    """Return the number that a query selects."""
    return column(query, *values)[0]


@contextmanager
def local_stack(*, slots: int) -> Iterator[LocalStack]:
    """Run `manage.py local` during the block. Its jobs run on the simulator that sleeps."""
    with tempfile.TemporaryDirectory(prefix="simservice-bench-") as name:
        folder = Path(name)
        # Simulators run as other users, which must be able to read the folder.
        folder.chmod(0o755)
        simulator, data = compiled_simulator(folder), folder / "stack"
        with _started(data, slots=slots) as (process, url):
            os.environ.update(
                _stack_settings(data), DJANGO_SETTINGS_MODULE="simservice.settings", LOG_LEVEL="WARNING"
            )
            django.setup()
            manage("registerbuild", str(simulator), "--branch", "midnight", "--commit", "bench")
            yield LocalStack(url=url, folder=data, supervisor=psutil.Process(process.pid))
            connections.close_all()


@contextmanager
def _started(data: Path, *, slots: int) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Start a stack; yield its process and its address, and stop it."""
    environment = {name: value for name, value in os.environ.items() if name not in OWN_SETTINGS}
    command = [sys.executable, "manage.py", "local", "--port", "0", "--data", str(data), "--no-demo"]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment | {"SIM_SLOTS": str(slots)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            assert line.startswith("READY "), f"the stack did not start: {line}"
            yield process, str(json.loads(line.removeprefix("READY "))["url"])
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _stack_settings(data: Path) -> dict[str, str]:
    """Return the settings that the stack wrote to its `stack.env`."""
    words = (shlex.split(line) for line in (data / "stack.env").read_text().splitlines())
    return dict(word.split("=", 1) for export, word in words)


def manage(*arguments: str) -> str:
    """Run a management command on the lab's database and return its output. Raises RuntimeError if it fails."""
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{arguments[0]}: {done.stdout}{done.stderr}")
    return done.stdout


def compiled_simulator(folder: Path) -> Path:
    """Return a compiled simulator that sleeps. Raises FileNotFoundError if the compiler `cc` is missing."""
    target = folder / "sleeper"
    # Without errno, the compiler needs no mathematical library.
    command = ["cc", "-O2", "-fno-math-errno", "-o", str(target), str(ROOT / "bench" / "sleeper.c")]
    subprocess.run(command, check=True)
    target.chmod(0o755)
    return target


@contextmanager
def second_worker(*, slots: int) -> Iterator[None]:
    """Run another simulation worker of the stack during the block."""
    with started_worker("second", slots=slots) as process:
        try:
            yield
        finally:
            process.terminate()


def started_worker(name: str, *, slots: int) -> "subprocess.Popen[bytes]":
    """Start another simulation worker of the stack."""
    worker = ["worker", "--hostname", f"{name}@%h", "--queues", "sim.high,sim.standard,sim.background"]
    pool = ["--pool", "threads", "--concurrency", str(slots), "--without-mingle", "--without-gossip"]
    command = [sys.executable, "-m", "celery", "--app", "simservice", *worker, *pool]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
