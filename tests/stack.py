"""The whole stack, started with `manage.py local`, and a client of its API."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
import requests
from redis import Redis

ROOT = Path(__file__).resolve().parent.parent
# The variable with the folder that new data folders are copied from, set by `tests/services.py`
TEMPLATE = "STACK_TEMPLATE"
LIFT_LIMITS = """
    UPDATE billing_plan
    SET submissions_per_minute = %(most)s, submission_bytes_per_minute = 1e12, reads_per_minute = %(most)s,
        max_active_jobs = %(most)s
"""
TERMINAL = {"completed", "failed", "cancelled", "timed_out"}
QUICK = 'mage="Quick"\nlevel=80\niterations=20\n'
# A minute of work for one slot of a quiet machine, and a few seconds until its first percent.
LONG = 'mage="Long"\nlevel=80\niterations=30000\n' + "".join(
    f"profileset.{number}+=head=,id={number},ilevel=600\n" for number in range(100)
)


@dataclass(frozen=True)
class ApiClient:
    """A client of the API. `ready` contains its `url` and `apiKey`."""

    ready: dict[str, str]

    def call(self, method: str, path: str, **kwargs: Any) -> dict[str, Any]:
        """Call the API and return the body of the response. Raises HTTPError for an error."""
        headers = {"Authorization": f"Bearer {self.ready['apiKey']}"}
        response = requests.request(
            method, f"{self.ready['url']}/v1/sim/{path}", headers=headers, timeout=10, **kwargs
        )
        response.raise_for_status()
        body: dict[str, Any] = response.json()
        return body

    def submit(self, text: str = QUICK, **fields: Any) -> str:
        """Submit a job and return its id."""
        body = {"build": {"channel": "latest"}, "profile": {"text": text}, **fields}
        return str(self.call("POST", "jobs", json=body)["id"])

    def job(self, job_id: str) -> dict[str, Any]:
        return self.call("GET", f"jobs/{job_id}")

    def wait(self, job_id: str, reached: Callable[[dict[str, Any]], bool], *, seconds: float) -> dict[str, Any]:
        """Poll a job until a condition is true."""
        deadline = time.monotonic() + seconds
        while not reached(job := self.job(job_id)):
            assert time.monotonic() < deadline, f"still {job['status']} after {seconds} s"
            time.sleep(0.1)
        return job

    def wait_for_end(self, job_id: str, *, seconds: float = 60) -> dict[str, Any]:
        """Poll a job until it has ended."""
        return self.wait(job_id, lambda job: job["status"] in TERMINAL, seconds=seconds)

    def report(self, job_id: str) -> dict[str, Any]:
        """Download the JSON report of a job that ran in a single pass."""
        artifacts = self.call("GET", f"jobs/{job_id}/result")["result"]["artifacts"]
        (url,) = [artifact["url"] for artifact in artifacts if artifact["kind"] == "json_report"]
        response = requests.get(url, timeout=10)
        response.raise_for_status()
        report: dict[str, Any] = response.json()
        return report


@dataclass(frozen=True)
class Stack(ApiClient):
    """A running stack and the content of its READY line."""

    process: subprocess.Popen[str]
    # The stack's data folder.
    data: Path

    def worker(self) -> psutil.Process:
        """Return the simulation worker's process."""
        (worker,) = below(psutil.Process(self.process.pid), "--queues sim")
        return worker

    def pause_when_running(self, job_id: str) -> None:
        """Wait for the first percent of a job and suspend all simulators, which leaves the processors to the test.

        Their jobs keep running and can be cancelled.
        """
        deadline = time.monotonic() + 120
        while not self.call("GET", f"jobs/{job_id}/status")["progress"]["percent"]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        # No simulator is running between two shards.
        while not suspend(below(self.worker(), "boot.py")):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def wait_for_all_ends(self) -> None:
        """Wait until every job has ended."""
        active = "SELECT exists(SELECT FROM jobs_job WHERE status <> ALL(%s))"
        deadline = time.monotonic() + 120
        with psycopg.connect(self.ready["databaseUrl"], autocommit=True) as connection:
            while connection.execute(active, [list(TERMINAL)]).fetchone() == (True,):
                assert time.monotonic() < deadline
                time.sleep(0.2)

    def manage(self, *arguments: str) -> None:
        """Run a command of manage.py on the stack's database."""
        own = {"DATABASE_URL": self.ready["databaseUrl"], "REDIS_URL": self.ready["redisUrl"], "SECRET_KEY": "any"}
        command = [sys.executable, "manage.py", *arguments]
        subprocess.run(command, cwd=ROOT, env={**os.environ, **own}, check=True, stdout=subprocess.DEVNULL)

    def lift_limits(self) -> None:
        """Raise the limits of the plans, which would otherwise refuse hundreds of requests or jobs at once."""
        with psycopg.connect(self.ready["databaseUrl"]) as connection:
            connection.execute(LIFT_LIMITS, {"most": 1_000_000})

    def redis(self) -> "Redis":
        return Redis.from_url(self.ready["redisUrl"])

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop the stack and return its exit status. After SIGKILL, the kernel kills its processes."""
        self.process.send_signal(number)
        status = self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status


def below(process: psutil.Process, text: str) -> list[psutil.Process]:
    """Return the live descendants of a process whose command line contains a text."""
    descendants = []
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if text in " ".join(child.cmdline()):
                descendants.append(child)
    return descendants


def suspend(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Suspend processes and return those that were still running."""
    running = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
            # A zombie takes the signal too.
            if process.status() != psutil.STATUS_ZOMBIE:
                running.append(process)
    return running


def start_stack(data: Path, **chosen: str) -> Stack:
    """Start a stack with a data folder and settings, and wait until it is ready.

    In a test run, a new folder begins as a copy of a migrated one, unless the settings decide what it contains.
    """
    if not data.exists() and not {"DATABASE_URL", "GIT_BRANCHES"} & chosen.keys():
        prepare(data)
    return _start(data, chosen)


def prepare(data: Path) -> None:
    """In a test run, copy the data folder of a stack that ran once, with its database, without Redis and logs."""
    if TEMPLATE not in os.environ:
        return
    template = Path(os.environ[TEMPLATE])
    with template.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            new = template.with_suffix(".new")
            assert _start(new, {}).stop() == 0
            for folder in ("redis", "logs"):
                shutil.rmtree(new / folder)
            new.rename(template)
    # Keeps owners: PostgreSQL does not run as root.
    subprocess.run(["/bin/cp", "--archive", str(template), str(data)], check=True)


def _start(data: Path, chosen: Mapping[str, str]) -> Stack:
    """Start a stack as `start_stack` does, without a template."""
    own = ("DATABASE_URL", "REDIS_URL", "DATA_DIR", "SECRET_KEY", "DJANGO_SETTINGS_MODULE")
    environment = {**{name: value for name, value in os.environ.items() if name not in own}, **chosen}
    command = [sys.executable, "manage.py", "local", "--port", "0", "--data", str(data), "--no-demo"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("READY "), line
    return Stack(json.loads(line.removeprefix("READY ")), process, data)


@contextlib.contextmanager
def running_stack(data: Path, **chosen: str) -> Iterator[Stack]:
    """Run a stack with a data folder and settings; stop it at the end of the block."""
    stack = start_stack(data, **chosen)
    try:
        yield stack
    finally:
        status = stack.stop()
    assert status == 0
