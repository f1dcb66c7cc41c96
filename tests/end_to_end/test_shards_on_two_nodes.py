"""One job on two nodes: workers with separate folders that share a bucket, PostgreSQL and Redis."""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.core.management import call_command

from billing.models import Entry, Pocket
from jobs.management.commands.seedlocal import MINISIM
from jobs.models import Artifact, Build, Job, JobEvent, Run, Shard, ShardedStage
from simc import command
from tests.factories import make_account, make_key
from tests.jobs.shards.sharded_runs import wait_for_shard
from tests.jobs.simulation_workers import BEAT, CONTROL, wait_until_alive, worker
from tests.s3_server import S3Server
from tests.stack import TERMINAL, ApiClient
from tests.waiting import wait_until
from tests.web_server import web_server

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(240)]

NAMES = [f"set {number}" for number in range(1, 25)]
PROFILE = 'mage="A"\nlevel=80\niterations=1500\ndeterministic=1\n' + "".join(
    f'profileset."{name}"+=head=,id=1,ilevel={600 + number}\n' for number, name in enumerate(NAMES)
)
SLOTS = 4
VCPUS = 2
# Short, because a lost node is noticed only when its leases expire: no worker restarts in its folder.
LEASES = {"LEASE_SECONDS": "4", "HEARTBEAT_SECONDS": "1"}


@dataclass(frozen=True)
class Nodes:
    """Two nodes of one slot each, and a client of the API."""

    client: ApiClient
    bucket: Path
    # The worker of each node and its folder
    workers: list[tuple["subprocess.Popen[str]", Path]]

    def worker_of(self, slot: str) -> psutil.Process:
        """Return the worker process of the slot with this name."""
        (found,) = [each for each, _ in self.workers if str(each.pid) == slot.split(":")[1]]
        return psutil.Process(found.pid)

    def kill_while_running(self, **fields: Any) -> Shard:
        """Wait for a running shard with these fields, other than the first, and kill its node. Return the shard."""
        while True:
            shard = wait_for_shard(**fields)
            process = self.worker_of(shard.worker)
            process.suspend()
            # A statement that the worker has sent may still change the shard.
            time.sleep(0.2)
            if Shard.objects.filter(pk=shard.pk, status="running", try_number=shard.try_number).exists():
                process.kill()
                return shard
            process.resume()


@pytest.fixture(scope="module")
def one_pass(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The report of one simulator process that runs the whole profile."""
    folder = tmp_path_factory.mktemp("pass")
    (folder / command.PROFILE_NAME).write_text(PROFILE)
    # With `deterministic`, the iterations of a profileset depend on the threads.
    arguments = command.arguments(threads=VCPUS, json_version=2, html=False)
    subprocess.run([MINISIM, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return json.loads((folder / command.REPORT_NAME).read_text())


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let processes store artifacts in a bucket, and return its folder."""
    folder = tmp_path / "s3"
    folder.mkdir()
    server = S3Server(folder)
    server.start()
    for name, value in (server.variables() | LEASES).items():
        monkeypatch.setenv(name, value)
    yield folder / "artifacts"
    server.stop()


@pytest.fixture
def nodes(minisim: Build, bucket: Path, tmp_path: Path) -> Iterator[Nodes]:
    """Two nodes, and the processes of a third machine: the web server and the control worker."""
    _, secret = make_key(make_account(max_parallel_slots=SLOTS, vcpu_per_job=VCPUS))
    with ExitStack() as opened:
        web = opened.enter_context(web_server(tmp_path / "web.log"))
        log = opened.enter_context((tmp_path / "workers.log").open("wb"))
        opened.enter_context(worker(tmp_path / "control", *CONTROL, log=log))
        opened.enter_context(worker(tmp_path / "control", *BEAT, log=log))
        folders = [tmp_path / "one", tmp_path / "two"]
        workers = [(opened.enter_context(worker(folder, log=log)), folder) for folder in folders]
        for process, _ in workers:
            wait_until_alive(process)
        client = ApiClient({"url": f"http://127.0.0.1:{web.port}", "apiKey": secret})
        yield Nodes(client, bucket, workers)


def run_of(shard: Shard, try_number: int) -> Run:
    return Run.objects.get(attempt=1, shard=shard.number, try_number=try_number)


def ended(nodes: Nodes, job_id: str) -> Job:
    """Wait for the end of a job, check that it completed, and return it."""
    shown = nodes.client.wait_for_end(job_id)
    assert (shown["status"], shown["statusReason"]) == ("completed", None)
    return Job.objects.get(pk=job_id)


def by_name(report: Any) -> dict[str, Any]:
    return {entry["name"]: entry for entry in report["sim"]["profilesets"]["results"]}


def assert_equal_to_one_pass(nodes: Nodes, job: Job, one_pass: Any) -> None:
    """Assert that the summary and the downloaded report contain each profileset once, with the expected numbers."""
    assert job.summary is not None
    shown = [row["name"] for row in job.summary["mainActor"]["profilesets"]["results"]]
    report = nodes.client.report(str(job.pk))
    listed = [entry["name"] for entry in report["sim"]["profilesets"]["results"]]
    assert sorted(shown) == sorted(listed) == sorted(NAMES)
    assert by_name(report) == by_name(one_pass)
    assert report["sim"]["players"] == one_pass["sim"]["players"]


def assert_billed_once(job: Job) -> None:
    """Assert that the job ended once, and that exactly the counting try of each shard is billed."""
    counting = Run.objects.filter(job=job).exclude(stopped_for="lost")
    shards = list(counting.values_list("shard", flat=True))
    assert len(shards) == len(set(shards)) == 1 + max(shards)
    assert job.sim_duration_ms == sum(run.wall_ms or 0 for run in counting)
    assert job.credits_consumed == -(-job.sim_duration_ms // 1000) * job.credits_per_second
    spent = Entry.objects.filter(job_id=job.pk, target=Pocket.SPENT).values_list("credits", flat=True)
    assert sum(spent) == job.credits_consumed
    assert JobEvent.objects.filter(job=job, to_status__in=TERMINAL).count() == 1
    call_command("verifyledger")


def assert_stored_in_the_bucket_only(nodes: Nodes, job: Job) -> None:
    """Assert that the job left only its artifacts in the bucket, and none on the nodes."""
    # The conductor removes the shards after the end of the job: first their files, then their rows.
    wait_until(lambda: not ShardedStage.objects.exists() and not Shard.objects.exists())
    stored = {path.name for path in nodes.bucket.rglob(f"{job.pk}-{job.attempt}*")}
    names = Artifact.objects.filter(job=job).values_list("storage_name", flat=True)
    assert stored == {Path(name).name for name in names}
    assert not [path for _, folder in nodes.workers for path in folder.glob("artifacts/**/*")]


def test_two_nodes_run_one_job(nodes: Nodes, one_pass: Any) -> None:
    job = ended(nodes, nodes.client.submit(PROFILE))
    assert (job.attempt, job.slots_used, job.retried) == (1, 2, False)
    assert nodes.client.job(str(job.pk))["runtime"]["slotsUsed"] == 2
    assert set(Run.objects.values_list("seat", "try_number")) == {(0, 1), (1, 1)}
    assert_equal_to_one_pass(nodes, job, one_pass)
    assert_billed_once(job)
    assert_stored_in_the_bucket_only(nodes, job)


def test_a_lost_helping_node_costs_its_shard_one_try(nodes: Nodes, one_pass: Any) -> None:
    job_id = nodes.client.submit(PROFILE)
    shard = nodes.kill_while_running(seat=1)
    job = ended(nodes, job_id)
    # No run of the helper ended.
    assert (job.attempt, job.slots_used, job.retried) == (1, 1, False)
    lost, again = run_of(shard, shard.try_number), run_of(shard, shard.try_number + 1)
    assert (lost.stopped_for, lost.wall_ms, again.seat, again.exit_code) == ("lost", None, 0, "0")
    assert list(Run.objects.filter(stopped_for="lost")) == [lost]
    assert_equal_to_one_pass(nodes, job, one_pass)
    assert_billed_once(job)
    assert_stored_in_the_bucket_only(nodes, job)


def test_a_lost_conducting_node_costs_its_own_shard_one_try(nodes: Nodes, one_pass: Any) -> None:
    job_id = nodes.client.submit(PROFILE)
    # Both nodes have work.
    helped = wait_for_shard(seat=1)
    lost = nodes.kill_while_running(seat=0)
    job = ended(nodes, job_id)
    assert (job.attempt, job.slots_used) == (2, 2)
    assert nodes.client.job(job_id)["retried"] is True
    assert list(Run.objects.filter(stopped_for="lost")) == [run_of(lost, lost.try_number)]
    kept = run_of(helped, helped.try_number)
    assert (kept.attempt, kept.exit_code) == (1, "0")
    assert not Run.objects.filter(ended_at=None).exists()
    assert_equal_to_one_pass(nodes, job, one_pass)
    assert_billed_once(job)
    assert_stored_in_the_bucket_only(nodes, job)
