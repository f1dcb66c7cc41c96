"""Drills: one of two nodes with separate folders and a bucket is killed or drained while jobs run.

Each node runs `sim` with two slots, `control` and `webhooks`. Only `make drill` runs them, and prints the figures.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from django.core.management import call_command
from pytest_django import Settings

from billing.models import Entry, Pocket
from clients.audit import SYSTEM
from clients.keys import create_key
from jobs.models import Artifact, Build, Job, JobEvent
from tests.factories import make_account, make_client
from tests.jobs.simulation_workers import BEAT, CONTROL, WEBHOOKS, WORKER, wait_until_alive, worker
from tests.s3_server import S3Server
from tests.stack import TERMINAL, ApiClient
from tests.waiting import wait_until
from tests.web_server import web_server
from tests.webhooks.receivers import Receiver, make_authority, receiving
from webhooks import endpoints
from webhooks.models import Event

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(240),
    pytest.mark.slow,
    pytest.mark.skipif("DRILL_SECONDS" not in os.environ, reason="only `make drill` runs this"),
]

JOBS, SLOTS = 8, 2
PATIENCE_SECONDS = 150
# About a second of work on a quiet machine
SHORT_ITERATIONS = 4_000
LEASE_SECONDS, STOP_SECONDS = 4, 1
# Several times as long as a drained node waits for its jobs
LONG_ITERATIONS = SHORT_ITERATIONS * 4 * STOP_SECONDS
KINDS = {
    "sim": [*WORKER, "--concurrency", str(SLOTS)],
    "control": CONTROL,
    "beat": BEAT,
    "webhooks": WEBHOOKS,
}


@dataclass
class Node:
    """The processes of one machine and its folder."""

    folder: Path
    processes: dict[str, "subprocess.Popen[str]"] = field(default_factory=dict)

    def running(self) -> list[Job]:
        """Return the jobs that run on this node."""
        sim = f":{self.processes['sim'].pid}:"
        return list(Job.objects.filter(status="running", worker__contains=sim).order_by("pk"))

    def send(self, number: signal.Signals) -> None:
        for process in self.processes.values():
            process.send_signal(number)

    def kill_while_running(self) -> tuple[datetime, list[Job]]:
        """Wait until each slot runs a job, and kill all processes at once. Return the time and these jobs."""
        while True:
            wait_until(lambda: len(self.running()) == SLOTS, seconds=PATIENCE_SECONDS)
            self._send_to_all(signal.SIGSTOP)
            # A statement that a process has sent may still change a job.
            time.sleep(0.2)
            if len(jobs := self.running()) == SLOTS:
                killed_at = datetime.now(UTC)
                self._send_to_all(signal.SIGKILL)
                return killed_at, jobs
            self._send_to_all(signal.SIGCONT)

    def _send_to_all(self, number: signal.Signals) -> None:
        """Send a signal to the node's processes and their descendants, such as simulators."""
        started = [psutil.Process(process.pid) for process in self.processes.values()]
        found = [*started, *(child for process in started for child in process.children(recursive=True))]
        for process in found:
            # Simulators end with their worker.
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)


@dataclass(frozen=True)
class Site:
    """Two nodes, a client of the API whose jobs notify a receiver, and the bucket."""

    nodes: list[Node]
    client: ApiClient
    receiver: Receiver
    bucket: Path

    def submit_all(self, *, long: int = 0) -> None:
        """Submit all jobs. The first `long` ones take longer."""
        profilesets = [f"profileset.{number}+=head=,id=1,ilevel={600 + number}\n" for number in range(8)]
        for position in range(JOBS):
            iterations = LONG_ITERATIONS if position < long else SHORT_ITERATIONS
            profile = f'mage="A"\nlevel=80\niterations={iterations}\n{"".join(profilesets)}'
            self.client.submit(profile, webhook={"events": ["job.terminal"]})

    def wait_for_ends(self) -> None:
        """Wait until all jobs have ended and all their webhooks are delivered."""
        wait_until(lambda: not Job.objects.filter(completed_at=None).exists(), seconds=PATIENCE_SECONDS)
        wait_until(lambda: not Event.objects.exclude(state="delivered").exists(), seconds=PATIENCE_SECONDS)

    def losses(self) -> str:
        """Assert that nothing is lost and that each job is credited exactly once. Return the figures."""
        jobs = JOBS - Job.objects.filter(status="completed").count()
        webhooks = JOBS - len(set(Event.objects.values_list("name", flat=True)) & set(self.receiver.events()))
        assert (jobs, webhooks) == (0, 0)
        for job in Job.objects.all():
            spent = Entry.objects.filter(job_id=job.pk, target=Pocket.SPENT).values_list("credits", flat=True)
            assert [sum(spent), len(spent)] == [job.credits_consumed, 1]
            assert JobEvent.objects.filter(job=job, to_status__in=TERMINAL).count() == 1
        call_command("verifyledger")
        self._require_files()
        return f"jobs lost: {jobs} of {JOBS}, webhooks lost: {webhooks}, each job credited once"

    def _require_files(self) -> None:
        """Assert that all artifacts are in the bucket, and none on a node."""
        stored = {path.name for path in self.bucket.rglob("*") if path.is_file()}
        assert {Path(name).name for name in Artifact.objects.values_list("storage_name", flat=True)} <= stored
        assert not [path for node in self.nodes for path in node.folder.glob("artifacts/**/*")]


@pytest.fixture
def site(minisim: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[Site]:
    with ExitStack() as opened:
        storage = tmp_path / "s3"
        storage.mkdir()
        server = S3Server(storage)
        server.start()
        opened.callback(server.stop)
        receiver = opened.enter_context(receiving(make_authority(tmp_path)))
        variables = server.variables() | {
            "LEASE_SECONDS": str(LEASE_SECONDS),
            "HEARTBEAT_SECONDS": "1",
            # A busy machine may renew leases late, which costs an attempt but no job.
            "MAX_ATTEMPTS": "20",
            "STOP_SECONDS": str(STOP_SECONDS),
            **receiver.settings(),
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        settings.WEBHOOK_ALLOWED_ADDRESSES = [receiver.address]
        client = make_client(make_account())
        endpoints.configure(client, receiver.url(), by=SYSTEM)
        _, secret = create_key(client, by=SYSTEM)
        web = opened.enter_context(web_server(tmp_path / "web.log"))
        log = opened.enter_context((tmp_path / "workers.log").open("wb"))
        nodes = [Node(tmp_path / name) for name in ("one", "two")]
        for node in nodes:
            for kind, program in KINDS.items():
                node.processes[kind] = opened.enter_context(worker(node.folder, *program, log=log))
        for node in nodes:
            wait_until_alive(node.processes["sim"])
        api = ApiClient({"url": f"http://127.0.0.1:{web.port}", "apiKey": secret})
        yield Site(nodes, api, receiver, storage / "artifacts")


def report(text: str) -> None:
    print(text)  # noqa: T201 - the figures of the drill


def seconds_until_running(job: Job, since: datetime) -> float:
    """Return how long a job took until its next attempt ran."""
    again = JobEvent.objects.filter(job=job, attempt=job.attempt + 1, to_status="running").earliest("pk")
    return (again.at - since) / timedelta(seconds=1)


def test_a_killed_node_loses_no_job_and_no_webhook(site: Site) -> None:
    site.submit_all()
    killed_at, jobs = site.nodes[0].kill_while_running()
    site.wait_for_ends()
    running = max(seconds_until_running(job, killed_at) for job in jobs)
    last = JobEvent.objects.filter(to_status__in=TERMINAL).latest("at")
    ended = (last.at - killed_at) / timedelta(seconds=1)
    report(
        f"Killed with {len(jobs)} running jobs and LEASE_SECONDS={LEASE_SECONDS}: they ran again after "
        f"{running:.1f} s, all jobs ended after {ended:.1f} s; {site.losses()}"
    )


def test_a_drained_node_returns_its_jobs(site: Site) -> None:
    site.submit_all(long=SLOTS * len(site.nodes))
    wait_until(lambda: bool(site.nodes[0].running()), seconds=PATIENCE_SECONDS)
    started = time.monotonic()
    site.nodes[0].send(signal.SIGTERM)
    statuses = [process.wait(60) for process in site.nodes[0].processes.values()]
    seconds = time.monotonic() - started
    assert statuses == [0, 0, 0]
    assert not site.nodes[0].running()
    site.wait_for_ends()
    repeated = Job.objects.filter(attempt__gt=1).count()
    assert repeated
    report(
        f"Drained in {seconds:.1f} s with STOP_SECONDS={STOP_SECONDS}; jobs repeated: {repeated}; {site.losses()}"
    )
