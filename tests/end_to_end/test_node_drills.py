"""Drills: one of two nodes with separate folders and a bucket is drained while jobs run.

Each node runs `sim`, `control` and `webhooks`. The test prints the figures.
"""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from django.core.management import call_command
from pytest_django import Settings

from clients.audit import SYSTEM
from clients.keys import create_key
from jobs.models import Artifact, Build, Job
from tests.factories import make_account, make_client
from tests.jobs.simulation_workers import WORKER, wait_until_alive, worker
from tests.jobs.simulators import wait_until
from tests.s3_server import S3Server
from tests.stack import ApiClient
from tests.web_server import web_server
from tests.webhooks.receivers import Receiver, make_authority, receiving
from webhooks import endpoints
from webhooks.models import Event

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(240), pytest.mark.slow]

JOBS = 8
# About a second of work.
PROFILE = 'mage="A"\nlevel=80\niterations=20000\n' + "".join(
    f"profileset.{number}+=head=,id=1,ilevel={600 + number}\n" for number in range(8)
)
LEASE_SECONDS, STOP_SECONDS = 4, 2
KINDS = {
    "sim": WORKER,
    "control": ["-m", "simservice.worker", "control", "--queues", "control", "--concurrency", "4", "--beat"],
    "webhooks": ["-m", "simservice.worker", "webhooks", "--queues", "webhooks"],
}


@dataclass
class Node:
    """The processes of one machine and its folder."""

    folder: Path
    processes: dict[str, "subprocess.Popen[str]"] = field(default_factory=dict)

    def runs(self, job: Job) -> bool:
        return job.worker.split(":")[1:2] == [str(self.processes["sim"].pid)]

    def send(self, number: signal.Signals) -> None:
        for process in self.processes.values():
            process.send_signal(number)


@dataclass(frozen=True)
class Site:
    """Two nodes, a client of the API whose jobs notify a receiver, and the bucket."""

    nodes: list[Node]
    client: ApiClient
    receiver: Receiver
    bucket: Path

    def submit_all(self) -> list[str]:
        return [self.client.submit(PROFILE, webhook={"events": ["job.terminal"]}) for _ in range(JOBS)]

    def running_job(self) -> Job:
        """Wait until the first node runs a job, and return it."""
        found: list[Job] = []

        def look() -> bool:
            found[:] = [job for job in Job.objects.filter(status="running") if self.nodes[0].runs(job)]
            return bool(found)

        wait_until(look)
        return found[0]

    def lost(self, jobs: list[str]) -> tuple[int, int]:
        """Wait for the end of all jobs; return how many did not complete, and how many webhooks are missing."""
        ends = [self.client.wait_for_end(job, seconds=120)["status"] for job in jobs]
        wait_until(lambda: not Event.objects.exclude(state="delivered").exists())
        missing = set(Event.objects.values_list("name", flat=True)) - set(self.receiver.events())
        assert Event.objects.count() == len(jobs)
        return sum(end != "completed" for end in ends), len(missing)


@pytest.fixture
def site(minisim: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[Site]:
    with ExitStack() as opened:
        storage = tmp_path / "s3"
        storage.mkdir()
        server = S3Server(storage)
        server.start()
        opened.callback(server.stop)
        authority = make_authority(tmp_path)
        receiver = opened.enter_context(receiving(authority))
        variables = server.variables() | {
            "LEASE_SECONDS": str(LEASE_SECONDS),
            "HEARTBEAT_SECONDS": "1",
            "STOP_SECONDS": str(STOP_SECONDS),
            "WEBHOOK_ALLOWED_ADDRESSES": receiver.address,
            "WEBHOOK_CA_FILE": str(authority.ca_file),
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


def require_consistent(site: Site) -> None:
    """Assert that the books are right, and that all artifacts are in the bucket and none on a node."""
    call_command("verifyledger")
    stored = {path.name for path in site.bucket.rglob("*") if path.is_file()}
    assert {Path(name).name for name in Artifact.objects.values_list("storage_name", flat=True)} <= stored
    assert not [path for node in site.nodes for path in node.folder.glob("artifacts/**/*")]


def test_a_drained_node_returns_its_jobs(site: Site) -> None:
    jobs = site.submit_all()
    site.running_job()
    started = time.monotonic()
    site.nodes[0].send(signal.SIGTERM)
    statuses = [process.wait(60) for process in site.nodes[0].processes.values()]
    seconds = time.monotonic() - started
    assert statuses == [0, 0, 0]
    assert not [job for job in Job.objects.filter(completed_at=None) if site.nodes[0].runs(job)]
    assert site.lost(jobs) == (0, 0)
    repeated = Job.objects.filter(attempt__gt=1).count()
    report(
        f"Drained in {seconds:.1f} s with STOP_SECONDS={STOP_SECONDS}; jobs lost: 0 of {JOBS}, webhooks lost: 0, "
        f"jobs repeated: {repeated}"
    )
    require_consistent(site)
