"""A rolling upgrade: `python -m tests.end_to_end.rolling_upgrade COMMIT`.

COMMIT must have the initial migrations of this checkout, like every release and the last commit that changed them.
Starts the code of COMMIT on an empty database, migrates the database to this checkout while jobs run, and runs the
processes of both versions side by side. Submits jobs to both web servers, and kills a helping and a conducting
worker of the new version and a worker of the old one. Then stops the old processes. Prints how many attempts each
version ran, and all violations. The exit status is 1 if there are any.
"""

import io
import json
import os
import secrets
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil
import psycopg
import requests
from honcho.environ import parse_procfile

from bench.soak import LOST_RUNS, VIOLATIONS
from localstack.postgres import start_postgres
from localstack.redis_server import free_port, start_redis
from localstack.supervisor import Program, Supervisor, shell
from tests.stack import QUICK, ROOT, ApiClient

T = TypeVar("T")
SLOTS = 4
SETS = 24
WIDE = 'mage="Wide"\niterations=50\n' + "".join(
    f'profileset."set {number}"+=head=,id=1,ilevel={600 + number}\n' for number in range(SETS)
)
# A simulator whose time does not depend on the machine: 0.4 s for each profileset of more than one iteration.
STAND_IN = """#!/bin/sh
echo 'SimulationCraft 1120-01'
[ -f profile.simc ] || exit 0
sleep 0.3
tr -d '"' < profile.simc > plain
base=$(sed -n 's/^iterations=//p' plain | tail -n 1)
sed -n 's/^profileset[.]\\([^+=]*\\).*/\\1/p' plain | sort -u > names
while read -r name; do
    own=$(sed -n "s/^profileset[.]$name+=iterations=//p" plain | tail -n 1)
    [ "${own:-$base}" -le 1 ] || sleep 0.4
    echo "${comma-}{\\"name\\":\\"$name\\",\\"iterations\\":${own:-$base},"
    echo '"mean":50,"mean_stddev":1,"stddev":5,"min":1,"max":99}'
    comma=,
done < names > sets
cat > report.json <<END
{"version":"1","report_version":"2.0.0","sim":{"options":{"iterations":50},"players":[{"name":"Wide","collected_data":
{"dps":{"mean":50,"mean_std_dev":1,"std_dev":5,"min":1,"max":99}}}],"profilesets":{"results":[$(cat sets)]},
"statistics":{"elapsed_time_seconds":1}}}
END
"""
# The version whose web server receives each job, and whether the job is wide: it can be cut into shards.
BEFORE = [("old", True), ("old", False)] * 2
ROUND = [("new", True), ("old", False), ("new", True), ("new", False), ("old", True)]
MEANWHILE = [*ROUND * 5, ("new", False)]
SUBMIT_SECONDS = 1.0
# While at least this many jobs are unfinished, `kill` submits no more.
BUSY = 3
PATIENCE_SECONDS = 120.0
# Longer than the rows of shards are kept after the end of their job (`jobs/lifecycle/shard_moves.py`)
VOID_SECONDS = 90.0
# Programs, and the names of their processes in the Procfile
PROGRAMS = {"web": "web", "sim-1": "sim", "sim-2": "sim", "control": "control", "beat": "beat"}

UNFINISHED = "SELECT count(*) FROM jobs_job WHERE completed_at IS NULL"
HELPING = "SELECT worker FROM jobs_shard WHERE status = 'running' AND seat > 0"
CONDUCTING = """
    SELECT job.worker FROM jobs_job AS job JOIN jobs_shardedstage AS stage USING (attempt)
    JOIN jobs_shard AS shard ON shard.stage_id = stage.id
    WHERE stage.job_id = job.id AND job.status = 'running' AND shard.status = 'running' AND seat > 0
"""
CLAIMED = "SELECT worker FROM jobs_job WHERE status = 'running' ORDER BY parallel_slots DESC"
WIDEN = "UPDATE billing_plan SET max_parallel_slots = %s"
SHARD_ROWS = "SELECT (SELECT count(*) FROM jobs_shardedstage) + (SELECT count(*) FROM jobs_shard)"
# Each attempt: its worker, the slots of its job, whether it is the job's last, and how many runs and seats it had.
ATTEMPTS = """
    SELECT substr(reason, length('claimed by ') + 1), job.parallel_slots, event.attempt = job.attempt,
        (SELECT count(*) FROM jobs_run AS run WHERE run.job_id = job.id AND run.attempt = event.attempt),
        (SELECT count(DISTINCT seat) FROM jobs_run AS run WHERE run.job_id = job.id AND run.attempt = event.attempt)
    FROM jobs_jobevent AS event JOIN jobs_job AS job ON job.id = event.job_id WHERE to_status = 'starting'
"""
OWN_VIOLATIONS = {
    "jobs that did not complete": "SELECT count(*) FROM jobs_job WHERE status <> 'completed'",
    # An attempt of the new version keeps the shards of earlier ones; one of the old version starts again.
    "jobs not billed for exactly the runs that count": """
        SELECT count(*) FROM jobs_job AS job WHERE sim_duration_ms NOT IN (
            (
                SELECT coalesce(sum(wall_ms), 0) FROM jobs_run
                WHERE job_id = job.id AND jobs_run.attempt = job.attempt AND stopped_for <> 'lost'
            ), (
                SELECT coalesce(sum(wall_ms), 0) FROM (
                    SELECT DISTINCT ON (stage, shard) wall_ms FROM jobs_run
                    WHERE job_id = job.id AND stopped_for <> 'lost'
                    ORDER BY stage, shard, jobs_run.attempt DESC, try_number DESC
                ) AS counted
            )
        ) OR credits_consumed <> priority_fee_credits
            + ceil(sim_duration_ms / 1000.0) * credits_per_second
    """,
}


@dataclass
class Version:
    """The processes of one version of the code."""

    name: str
    folder: Path
    # The folder of its interpreter, the only one that its built-in simulator finds in the sandbox.
    programs: Path
    settings: dict[str, str]
    logs: Path
    supervisor: Supervisor = field(default_factory=Supervisor)
    port: int = field(default_factory=free_port)
    # The process ids of its simulation workers, including those that have ended.
    workers: set[int] = field(default_factory=set)

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.programs), os.environ["PATH"]])
        return self.settings | {"PATH": path, "PORT": str(self.port)}

    def manage(self, *arguments: str, text: str = "") -> str:
        """Run a command of its manage.py and return the output. Raises CalledProcessError if it fails."""
        command = [str(self.programs / "python"), "manage.py", *arguments]
        ran = subprocess.run(
            command, cwd=self.folder, env=self.environment, input=text, capture_output=True, text=True, check=False
        )
        if ran.returncode:
            say(ran.stdout + ran.stderr)
        ran.check_returncode()
        return ran.stdout

    def start(self) -> None:
        """Start its processes, and wait until the web server responds."""
        lines = parse_procfile((self.folder / "Procfile").read_text()).processes
        for name, kind in PROGRAMS.items():
            self.supervisor.start(
                Program(
                    name=f"{self.name} {name}",
                    command=shell(lines[kind]),
                    folder=self.folder,
                    log=self.logs / f"{self.name}-{name}.log",
                    environment=self.environment,
                )
            )
        wait_for(self._is_ready, [self])

    def _is_ready(self) -> bool:
        try:
            return requests.get(f"http://127.0.0.1:{self.port}/readyz", timeout=5).ok
        except requests.RequestException:
            return False

    def watch(self, seconds: float) -> None:
        """Restart processes that have ended, and record the ids of workers."""
        self.supervisor.watch(seconds)
        for process in psutil.Process().children():
            with suppress(psutil.Error):
                if process.cwd() == str(self.folder) and "--queues sim" in " ".join(process.cmdline()):
                    self.workers.add(process.pid)

    def runs(self, slot: str) -> bool:
        """Return whether the slot with this name belongs to this version."""
        return int(slot.split(":")[1]) in self.workers


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def wait_for(condition: Callable[[], T], versions: Sequence[Version]) -> T:
    """Watch processes until a condition returns a true value, and return that value."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "the condition did not become true in time"
        for version in versions:
            version.watch(0.02)
    return found


def extract(commit: str, folder: Path) -> None:
    """Write the files of a commit to a folder, with a link to this environment. Raises CalledProcessError."""
    command = [shutil.which("git") or "git", "archive", commit]
    archive = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder)  # noqa: S202 - made by Git
    (folder / ".venv").symlink_to(Path(sys.prefix).resolve())


@contextmanager
def servers(folder: Path) -> Iterator[dict[str, str]]:
    """Start PostgreSQL and Redis; yield the environment of processes that use them."""
    supervisor = Supervisor()
    password = secrets.token_hex(16)
    try:
        yield {
            **{name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
            "DATABASE_URL": start_postgres(
                supervisor, folder / "postgres", log=folder / "postgres.log", password=password, durable=False
            ),
            "REDIS_URL": start_redis(supervisor, folder / "redis", log=folder / "redis.log", password=password),
            "SECRET_KEY": secrets.token_hex(32),
            "DATA_DIR": str(folder / "files"),
            "SANDBOX": "auto",
            "STOP_SECONDS": "3",
            "LEASE_SECONDS": "6",
            "HEARTBEAT_SECONDS": "2",
        }
    finally:
        supervisor.stop()


class Upgrade:
    """The run: both versions, a connection to the database, and the jobs."""

    def __init__(self, old: Version, new: Version, database: "psycopg.Connection[tuple[Any, ...]]") -> None:
        self.old, self.new, self.database = old, new, database
        self.key = ""
        self.jobs: list[tuple[str, bool]] = []

    @property
    def versions(self) -> list[Version]:
        return [self.old, self.new]

    def client(self, version: Version) -> ApiClient:
        return ApiClient({"url": f"http://127.0.0.1:{version.port}", "apiKey": self.key})

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self.database.execute(query, values).fetchall()

    def number(self, query: str) -> int:
        return int(self.rows(query)[0][0] or 0)

    def run(self) -> list[str]:
        """Upgrade, and return the violations."""
        self.old.manage("migrate", "--noinput")
        self.key = json.loads(self.old.manage("seedlocal", text="{}").splitlines()[-1])["apiKey"]
        self.register_stand_in()
        self.old.start()
        self.submit(BEFORE)
        say(f"{self.number(UNFINISHED)} jobs are unfinished; migrating")
        self.new.manage("migrate", "--noinput")
        self.database.execute(WIDEN, [SLOTS])
        self.new.start()
        self.submit(MEANWHILE[:9])
        self.kill(self.new, HELPING, what="helper")
        self.submit(MEANWHILE[9:18])
        self.kill(self.new, CONDUCTING, what="conductor")
        self.submit(MEANWHILE[18:])
        self.kill(self.old, CLAIMED, what="worker")
        say(f"stopping the old processes; {self.number(UNFINISHED)} jobs are unfinished")
        self.old.supervisor.stop()
        wait_for(lambda: self.number(UNFINISHED) == 0, [self.new])
        say(f"all {len(self.jobs)} jobs have ended")
        self.describe()
        return list(self.violations())

    def register_stand_in(self) -> None:
        script = self.old.logs / "build" / "simulator"
        script.parent.mkdir()
        script.write_text(STAND_IN)
        script.chmod(0o755)
        self.old.manage("registerbuild", str(script), "--branch", "midnight", "--commit", "stand-in")

    def submit(self, jobs: Sequence[tuple[str, bool]]) -> None:
        """Submit jobs one after another."""
        for name, is_wide in jobs:
            version = self.old if name == "old" else self.new
            # Shards come before background jobs, so helpers also help while jobs wait.
            priority = "standard" if is_wide else "background"
            job_id = self.client(version).submit(WIDE if is_wide else QUICK, priority=priority)
            self.jobs.append((job_id, is_wide))
            for each in self.versions:
                each.watch(SUBMIT_SECONDS / 2)

    def kill(self, version: Version, query: str, *, what: str) -> None:
        """Kill a worker of a version as soon as the query returns one of its slots. Submit jobs until then."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (found := [slot for (slot,) in self.rows(query) if version.runs(slot)]):
            assert time.monotonic() < deadline, f"no {version.name} {what} was found"
            if self.number(UNFINISHED) < BUSY:
                self.submit([("new", True)])
            for each in self.versions:
                each.watch(0.02)
        psutil.Process(int(found[0].split(":")[1])).kill()
        say(f"killed the {version.name} {what} {found[0]}")

    def describe(self) -> None:
        """Print how many attempts each version ran, by kind."""
        counts: Counter[str] = Counter()
        for slot, slots, is_last, runs, seats in self.rows(ATTEMPTS):
            version = "old" if self.old.runs(slot) else "new"
            kind = f"job with {slots} slots, {'cut' if runs > 1 else 'whole'}, {seats} seats used"
            counts[f"{version} worker: {kind}{'' if is_last else ', attempt lost or returned'}"] += 1
        for line, count in sorted(counts.items()):
            say(f"{count:4} {line}")
        say(f"{self.number(LOST_RUNS):4} lost runs")

    def violations(self) -> Iterator[str]:
        """Yield a description of each violation."""
        for name, query in (VIOLATIONS | OWN_VIOLATIONS).items():
            if count := self.number(query):
                yield f"{count} {name}"
        if self.number("SELECT count(*) FROM jobs_job") != len(self.jobs):
            yield "a job is missing"
        yield from self._wrong_results()
        yield from self._shard_rows()
        say(self.new.manage("verifyledger").strip())
        say(self.new.manage("verifyhistory").strip())

    def _wrong_results(self) -> Iterator[str]:
        expected = sorted(f"set {number}" for number in range(SETS))
        for job_id in [job_id for job_id, is_wide in self.jobs if is_wide]:
            report = self.client(self.new).report(job_id)
            if sorted(each["name"] for each in report["sim"]["profilesets"]["results"]) != expected:
                yield f"the report of job {job_id} does not contain each profileset exactly once"

    def _shard_rows(self) -> Iterator[str]:
        """Yield a violation if the sweep does not remove the rows of shards a minute after their jobs' ends."""
        say(f"{self.number(SHARD_ROWS)} rows of shards are left for the sweep")
        deadline = time.monotonic() + VOID_SECONDS
        while self.number(SHARD_ROWS):
            if time.monotonic() > deadline:
                yield f"{self.number(SHARD_ROWS)} rows of shards are left"
                return
            self.new.watch(0.5)


def main(commit: str) -> int:
    """Run the upgrade from a commit. Return the exit status."""
    with ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="simservice-upgrade-")))
        # Simulators run as other users, which must be able to read the folder.
        folder.chmod(0o755)
        extract(commit, folder / "old")
        settings = ending.enter_context(servers(folder))
        programs = folder / "old" / ".venv" / "bin"
        old = Version("old", folder / "old", programs, settings, folder)
        new = Version("new", ROOT, Path(sys.executable).parent, settings, folder)
        for version in (old, new):
            ending.callback(version.supervisor.stop)
        database = ending.enter_context(psycopg.connect(settings["DATABASE_URL"], autocommit=True))
        violations = Upgrade(old, new, database).run()
    say("\n".join(violations) or "No violations.")
    return int(bool(violations))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
