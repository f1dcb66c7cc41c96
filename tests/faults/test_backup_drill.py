"""Backup drills: back up under load, destroy the database, the bucket and Redis, follow the guide, and compare."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests

from tests.docs.guide_runs import BASH
from tests.faults.backup_site import Site, block, settings_of
from tests.faults.requests import PROFILE
from tests.faults.stand_in import make_fast_stand_in
from tests.stack import ROOT, TERMINAL
from tests.waiting import wait_until
from tests.webhooks.receivers import make_authority, receiving, respond

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# Of submissions before and after the backup; `make drill` sets more.
LOAD_SECONDS = float(os.environ.get("DRILL_SECONDS", "5"))
# Every fourth job takes long enough to be running at any moment.
SHORT_SECONDS, LONG_SECONDS, LONG_EVERY = 0.2, 3.0, 4
SUBMIT_SECONDS = 0.5
END_SECONDS = 300
# Creates a client whose webhook has this URL, and prints its key.
CONFIGURE = """
from billing.models import Account
from clients.audit import SYSTEM
from clients.keys import create_key
from clients.models import Client
from webhooks import endpoints
client = Client.objects.create(account=Account.objects.get(name="demo"), name={name!r})
endpoints.configure(client, {url!r}, by=SYSTEM)
print(create_key(client, by=SYSTEM)[1])
"""
UNFINISHED = "SELECT count(*) FROM jobs_job WHERE completed_at IS NULL"
IN_FLIGHT = "SELECT count(*) FROM jobs_job WHERE status IN ('starting', 'running')"
UNSENT = "SELECT count(*) FROM webhooks_event WHERE state IN ('waiting', 'sending')"
LOST_FILES = "SELECT count(*) FROM jobs_job WHERE missing_artifacts::text LIKE %s"
JOBS = "SELECT id, status, attempt FROM jobs_job"
# Jobs that ended, with their event, if it exists
EVENTS = """
    SELECT job.id, event.name, event.state
    FROM jobs_job AS job LEFT JOIN webhooks_event AS event ON event.job_id = job.id
    WHERE job.wants_webhook AND job.completed_at IS NOT NULL
"""
ARTIFACTS = """
    SELECT artifact.token, artifact.sha256 FROM jobs_artifact AS artifact JOIN jobs_job AS job ON job.id = job_id
    WHERE job.status = 'completed' AND artifact.attempt = job.attempt
"""


@dataclass
class Inbox:
    """The events that a receiver accepted. Before the disaster, one of its two webhooks is out of order."""

    accepted: set[str] = field(default_factory=set)
    is_in_order: bool = False

    def accept(self, request: BaseHTTPRequestHandler) -> None:
        self.accepted.add(str(request.headers["X-Service-Event-Id"]))
        respond(request, 200)

    def accept_later(self, request: BaseHTTPRequestHandler) -> None:
        if self.is_in_order:
            self.accept(request)
        else:
            respond(request, 503)


@dataclass
class Load:
    """Submissions of two clients, and the jobs that were accepted, by idempotency key."""

    url: str
    keys: list[str] = field(default_factory=list)
    accepted: dict[str, tuple[str, int]] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)

    def submit(self, key: str, name: str, number: int) -> int:
        """Submit a job and return its id."""
        seconds = SHORT_SECONDS if number % LONG_EVERY else LONG_SECONDS
        body = {
            "build": {"channel": "latest"},
            "profile": {"text": f"{PROFILE}# stand-in: {seconds} completed\n"},
            "webhook": {"events": ["job.terminal"]},
        }
        headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": name}
        response = requests.post(f"{self.url}/v1/sim/jobs", json=body, headers=headers, timeout=20)
        response.raise_for_status()
        return int(response.json()["id"])

    def submit_until_stopped(self, key: str) -> None:
        number = 0
        while not self.stopped.wait(SUBMIT_SECONDS):
            name = f"{self.keys.index(key)}-{number}"
            # The disaster happens during a request.
            with suppress(requests.RequestException):
                self.accepted[name] = (key, self.submit(key, name, number))
            number += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """Submit jobs during the block."""
        threads = [threading.Thread(target=self.submit_until_stopped, args=[key]) for key in self.keys]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stopped.set()
            for thread in threads:
                thread.join()


@dataclass
class Drill:
    """A site under load, and the one that replaces it."""

    folder: Path
    site: Site
    inbox: Inbox
    load: Load

    def destroy(self) -> Site:
        """Destroy the site. Return a new one with its settings and backups."""
        self.site.destroy()
        self.site = Site(self.folder / "restored", settings=self.site.settings, backup=self.site.backup)
        return self.site


def query(site: Site, statement: str, *values: object) -> list[Any]:
    with psycopg.connect(site.database_url) as database:
        return database.execute(statement, values).fetchall()


@pytest.fixture
def drill() -> Iterator[Drill]:
    """A running site with two clients. PostgreSQL's user must be able to enter its folder."""
    folder = Path(tempfile.mkdtemp(prefix="simservice-drill-"))
    folder.chmod(0o755)
    (folder / "backup").mkdir()
    with receiving(make_authority(folder)) as receiver:
        site = Site(folder / "site", settings=settings_of(receiver), backup=folder / "backup")
        drill = Drill(folder, site, Inbox(), Load(""))
        receiver.responders |= {"/now": drill.inbox.accept, "/later": drill.inbox.accept_later}
        try:
            prepare(drill, [receiver.url("/now"), receiver.url("/later")])
            yield drill
        finally:
            drill.load.stopped.set()
            drill.site.stop()
    shutil.rmtree(folder)


def prepare(drill: Drill, urls: list[str]) -> None:
    """Start the site, register a simulator whose jobs last as long as they say, and create two clients."""
    drill.site.start_servers()
    stack = drill.site.start_service()
    stack.lift_limits()
    drill.load.url = stack.ready["url"]
    stand_in = str(make_fast_stand_in(drill.folder))
    manage(drill.site, "registerbuild", stand_in, "--branch", "midnight", "--commit", "0123456789")
    for url in urls:
        script = CONFIGURE.format(name=url[-5:], url=url)
        drill.load.keys.append(manage(drill.site, "shell", "-v0", "-c", script).splitlines()[-1])


def manage(site: Site, *arguments: str) -> str:
    """Run a manage.py command with the settings of a site, and return its output."""
    environment = {**os.environ, **site.environment()}
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()


def wait_for_work(drill: Drill) -> None:
    """Wait until a job runs and an event could not be sent, so that the backup contains both."""
    site = drill.site
    wait_until(lambda: query(site, IN_FLIGHT)[0][0] and query(site, UNSENT)[0][0], seconds=END_SECONDS)


@pytest.mark.skipif("DRILL_SECONDS" not in os.environ, reason="`make drill` runs it; the other drill is stricter")
def test_a_nightly_copy_loses_only_what_came_after_it(drill: Drill) -> None:
    with drill.load.running():
        time.sleep(LOAD_SECONDS)
        wait_for_work(drill)
        before = dict(drill.load.accepted)
        drill.site.run("backup")
        time.sleep(LOAD_SECONDS)
        site, started = drill.destroy(), time.monotonic()
    site.start_servers()
    site.run("restore")
    site.run("restore-bucket")
    restored = recover(drill, started=started)
    assert {job for _, job in before.values()} <= set(restored)
    again = resubmit(drill)
    assert {name: again[name] for name in before} == before
    wait_for_end(site)
    report(drill, "nightly copy", restored, accepted={job for _, job in again.values()})
    assert not query(site, LOST_FILES, "%The file was lost.%")[0][0], "the bucket was copied first"
    assert downloads(site) == {200}


def test_recovery_to_the_last_moment_loses_nothing(drill: Drill) -> None:
    with receiving_wal(drill.site), drill.load.running():
        time.sleep(LOAD_SECONDS)
        wait_for_work(drill)
        drill.site.run("backup-base")
        time.sleep(LOAD_SECONDS)
        wait_for_work(drill)
        site, started = drill.destroy(), time.monotonic()
    site.pgdata.mkdir()
    site.run("restore-base")
    site.prepare_recovery()
    site.start_servers()
    site.run("restore-bucket")
    restored = recover(drill, started=started)
    report(
        drill, "recovery to the last moment", restored, accepted={job for _, job in drill.load.accepted.values()}
    )
    # The bucket's copy is older than the restored database.
    assert query(site, LOST_FILES, "%The file was lost.%")[0][0]
    assert downloads(site) == {200}


@contextmanager
def receiving_wal(site: Site) -> Iterator[None]:
    """Receive the write-ahead log during the block, so that every commit waits for it."""
    (site.backup / "wal").mkdir()
    site.allow_replication()
    process = subprocess.Popen([BASH, "-euc", block("receive")], env=site.tools(), start_new_session=True)
    try:
        wait_until(lambda: query(site, "SELECT FROM pg_stat_replication"))
        site.require_receiver()
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def recover(drill: Drill, *, started: float) -> dict[int, int]:
    """Check a restored site, start its service and wait until all work is done.

    Return the attempts of the jobs that were unfinished, or 0 for ended ones, by id.
    """
    site = drill.site
    restored = {job: 0 if status in TERMINAL else attempt for job, status, attempt in query(site, JOBS)}
    in_flight, unsent = query(site, IN_FLIGHT)[0][0], query(site, UNSENT)[0][0]
    assert in_flight, "the backup contains no running job"
    assert unsent, "the backup contains no unsent event"
    checked = site.run("check")
    drill.inbox.is_in_order = True
    drill.load.url = site.start_service().ready["url"]
    ready = time.monotonic() - started
    show(f"ready after {ready:.1f} s; {len(restored)} jobs, {in_flight} in flight, {unsent} unsent events")
    show(checked.splitlines()[-2])
    assert "(0 rows)" in site.run("deletions")
    wait_for_end(site)
    show(f"all jobs ended and all events sent after {time.monotonic() - started:.1f} s")
    return restored


def wait_for_end(site: Site) -> None:
    """Wait until no job is unfinished and no event is unsent."""
    wait_until(lambda: not query(site, UNFINISHED)[0][0] + query(site, UNSENT)[0][0], seconds=END_SECONDS)


def resubmit(drill: Drill) -> dict[str, tuple[str, int]]:
    """Repeat every accepted submission with its idempotency key. Return the jobs."""
    return {
        name: (key, drill.load.submit(key, name, int(name.partition("-")[2])))
        for name, (key, _) in drill.load.accepted.items()
    }


def report(drill: Drill, title: str, restored: Mapping[int, int], *, accepted: set[int]) -> None:
    """Compare the restored and accepted jobs with the end, print the losses, and require that there are none."""
    ended = {job: attempt for job, status, attempt in query(drill.site, JOBS) if status in TERMINAL}
    lost_jobs = (set(restored) | accepted) - set(ended)
    lost_events = [row for row in query(drill.site, EVENTS) if row[1] not in drill.inbox.accepted]
    repeated = [job for job, attempt in restored.items() if attempt and ended[job] > attempt]
    show(f"{title}: {len(repeated)} jobs retried, {len(lost_jobs)} jobs lost, {len(lost_events)} webhooks lost")
    assert (lost_jobs, lost_events) == (set(), [])
    assert all(ended[job] <= attempt + 1 for job, attempt in restored.items() if attempt)
    for command in ("verifyledger", "verifystorage"):
        assert "No discrepancies found." in manage(drill.site, command)


def downloads(site: Site) -> set[int]:
    """Download all artifacts of completed jobs. Return the statuses, after comparing the contents."""
    assert site.stack is not None
    statuses = set()
    for token, checksum in query(site, ARTIFACTS):
        response = requests.get(f"{site.stack.ready['url']}/artifacts/{token}", timeout=20)
        statuses.add(response.status_code)
        assert not response.ok or hashlib.sha256(response.content).hexdigest() == checksum
    return statuses


def show(figures: str) -> None:
    print(figures)  # noqa: T201 - the figures of the drill
