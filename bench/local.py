"""A local stack for benchmarks: `manage.py local` in a temporary folder, with a stub simulator as its build."""

import gzip
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import psutil
import psycopg
from psycopg import sql

from bench import stub
from bench.callers import Caller
from bench.machine import ROOT

SLOTS = 4
DRAIN_SECONDS = 60.0
JOB_SECONDS = 3_600.0
OWN_SETTINGS = ("DATABASE_URL", "REDIS_URL", "DATA_DIR", "SECRET_KEY", "DJANGO_SETTINGS_MODULE", "PUBLIC_BASE_URL")
ACTIVE = "SELECT count(*) FROM jobs_job WHERE status IN ('pending', 'queued', 'starting', 'running')"


@dataclass(frozen=True, kw_only=True)
class LocalStack:
    """A running stack: its address, database, processes and the API keys of its accounts."""

    url: str
    database: psycopg.Connection[tuple[Any, ...]]
    database_url: str
    redis_url: str
    supervisor: psutil.Process
    folder: Path
    keys: list[str]
    environment: Mapping[str, str]

    def number(self, query: str, *values: object) -> float:
        """Return the number that a query selects."""
        row = self.database.execute(query, values).fetchone()
        assert row is not None
        return float(row[0] or 0)

    def column(self, query: str, *values: object) -> list[float]:
        """Return the numbers of a query's first column."""
        return [float(row[0]) for row in self.database.execute(query, values)]

    def pairs(self, query: str, *values: object) -> dict[str, int]:
        """Return the names and numbers that a query selects."""
        return dict(self.database.execute(query, values).fetchall())

    def active_jobs(self) -> int:
        return int(self.number(ACTIVE))

    def drain(self) -> None:
        """Wait until every job has ended. Raises TimeoutError if no job ends for DRAIN_SECONDS."""
        left, deadline = self.active_jobs(), time.monotonic() + DRAIN_SECONDS
        while left:
            time.sleep(0.02)
            now = self.active_jobs()
            if now < left:
                left, deadline = now, time.monotonic() + DRAIN_SECONDS
            elif time.monotonic() > deadline:
                raise TimeoutError(f"{now} jobs have not ended, and none ended for {DRAIN_SECONDS:.0f} s")

    def run_job(self, text: str, *, multi_stage: bool = False) -> int:
        """Run a job of the first account until it ends, and return its id. Raises TimeoutError after an hour."""
        fields = {"build": {"channel": "latest"}, "profile": {"text": text}, "runtime": {"multiStage": multi_stage}}
        job_id = int(Caller(self.url, self.keys[0], body=json.dumps(fields).encode()).submit())
        deadline = time.monotonic() + JOB_SECONDS
        while self.active_jobs():
            time.sleep(0.1)
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {job_id} has not ended after {JOB_SECONDS:.0f} s")
        return job_id

    def set_plan(self, **fields: int) -> None:
        """Set columns of the accounts' plan. Only later jobs are affected."""
        for name, value in fields.items():
            self.database.execute(
                sql.SQL("UPDATE billing_plan SET {} = %s WHERE name = 'bench'").format(sql.Identifier(name)),
                [value],
            )

    @contextmanager
    def reports(self, job_id: int) -> Iterator[list[BinaryIO]]:
        """Open a job's JSON reports during the block, in the order of their stages."""
        query = "SELECT storage_name FROM jobs_artifact WHERE job_id = %s AND kind = 'json_report' ORDER BY stage"
        names = [name for (name,) in self.database.execute(query, [job_id])]
        with ExitStack() as opened:
            paths = [self.folder / "files" / "artifacts" / name for name in names]
            yield [cast(BinaryIO, opened.enter_context(gzip.open(path))) for path in paths]

    def manage(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a management command and return its result, whatever its exit status."""
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False)


@contextmanager
def local_stack(
    *,
    accounts: int,
    bubblewrap: bool = True,
    simulator: Callable[[Path], Path] | None = stub.build,
    **settings: str,
) -> Iterator[LocalStack]:
    """Run a stack with accounts and four slots during the block.

    `simulator` creates the simulator in a folder. If it is None, jobs run on the built-in simulator.
    """
    with tempfile.TemporaryDirectory(prefix="simservice-bench-") as name:
        top = Path(name)
        # Simulators run as other users, which must be able to read the folder.
        top.chmod(0o755)
        environment = _environment(top, bubblewrap=bubblewrap) | {"SIM_SLOTS": str(SLOTS)} | settings
        with _started(top / "stack", environment) as (process, ready):
            own = environment | _stack_settings(top / "stack")
            if simulator is not None:
                _register(simulator(top / "build"), own)
            with psycopg.connect(ready["databaseUrl"], autocommit=True) as database:
                yield LocalStack(
                    url=ready["url"],
                    database=database,
                    database_url=ready["databaseUrl"],
                    redis_url=ready["redisUrl"],
                    supervisor=psutil.Process(process.pid),
                    folder=top / "stack",
                    keys=json.loads(_run("-m", "bench.seed", str(accounts), environment=own)),
                    environment=own,
                )


@contextmanager
def second_worker(stack: LocalStack, *, slots: int) -> Iterator[None]:
    """Run another simulation worker of a stack during the block."""
    worker = ["worker", "--hostname", "second@%h", "--queues", "sim.high,sim.standard,sim.background"]
    pool = ["--pool", "threads", "--concurrency", str(slots), "--without-mingle", "--without-gossip"]
    command = [sys.executable, "-m", "celery", "--app", "simservice", *worker, *pool]
    with subprocess.Popen(
        command, cwd=ROOT, env=stack.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield
        finally:
            process.terminate()


def _environment(folder: Path, *, bubblewrap: bool) -> dict[str, str]:
    """Return an environment without the settings of other stacks and, if requested, without bubblewrap."""
    environment = {name: value for name, value in os.environ.items() if name not in OWN_SETTINGS}
    if not bubblewrap:
        environment["PATH"] = _path_without("bwrap", folder=folder / "programs")
    return environment


def _path_without(program: str, *, folder: Path) -> str:
    """Return a PATH with links to all programs except one."""
    folder.mkdir()
    for entry in os.get_exec_path():
        for found in Path(entry).iterdir() if Path(entry).is_dir() else ():
            if found.name != program and not (folder / found.name).is_symlink():
                (folder / found.name).symlink_to(found)
    assert shutil.which(program, path=str(folder)) is None
    return str(folder)


@contextmanager
def _started(
    data: Path, environment: Mapping[str, str]
) -> Iterator[tuple["subprocess.Popen[str]", dict[str, str]]]:
    """Start a stack; yield its process and the content of its READY line, and stop it."""
    command = [sys.executable, "manage.py", "local", "--port", "0", "--data", str(data), "--no-demo"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            assert line.startswith("READY "), f"the stack did not start: {line}"
            yield process, json.loads(line.removeprefix("READY "))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _stack_settings(data: Path) -> dict[str, str]:
    """Return the settings that the stack wrote to its `stack.env`."""
    lines = (shlex.split(line) for line in (data / "stack.env").read_text().splitlines())
    pairs = (words[1].partition("=") for words in lines if words[:1] == ["export"])
    return {name: value for name, _, value in pairs}


def _register(simulator: Path, environment: Mapping[str, str]) -> None:
    _run(
        "manage.py",
        "registerbuild",
        str(simulator),
        "--branch",
        "midnight",
        "--commit",
        "stub",
        environment=environment,
    )


def _run(*arguments: str, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
