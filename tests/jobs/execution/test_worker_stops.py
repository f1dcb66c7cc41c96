"""Processes of simulation workers that are stopped during a job, and that lose Redis."""

import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import Popen, TimeoutExpired

import pytest
from redis import Redis

from jobs.artifacts import credentials
from jobs.artifacts.credentials import GameCredentials
from jobs.models import Job, Run, Shard
from jobs.queue import announcements
from simc.command import CREDENTIALS_NAME
from tests.factories import make_job
from tests.faults.redis_server import RedisServer
from tests.jobs.lanes import message, messages
from tests.jobs.shards.sharded_runs import PROFILE, make_simulator
from tests.jobs.simulation_workers import CHANGED, status_of, wait_until_alive, worker
from tests.jobs.simulators import LEAVE_REPORT, RUN_UNTIL_INTERRUPTED, make_stand_in, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60), pytest.mark.django_db(transaction=True)]
SHORT_RUN = f"print('running', flush=True)\ntime.sleep(1)\n{LEAVE_REPORT}"
FAILED_STEP = "from jobs.execution import directories\ndirectories.sweep_leftovers = lambda: 1 / 0"


@pytest.mark.parametrize(
    ("program", "stop_seconds", "status"), [(SHORT_RUN, "20", "completed"), (RUN_UNTIL_INTERRUPTED, "1", "queued")]
)
def test_a_stopped_worker_ends_or_returns_its_job(
    open_directory: Path, program: str, stop_seconds: str, status: str
) -> None:
    make_stand_in(open_directory, program)
    job = make_job()
    with worker(open_directory, STOP_SECONDS=stop_seconds) as process:
        wait_until(lambda: status_of(job) == "running")
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
    assert status_of(job) == status


def test_a_stopped_conductor_costs_nothing(open_directory: Path) -> None:
    make_simulator(open_directory, seconds=0.5)
    with worker(open_directory) as one, worker(open_directory) as other:
        for process in (one, other):
            wait_until_alive(process)
        job = make_job(text=PROFILE, parallel_slots=2)
        announcements.replenish()
        wait_until(lambda: Shard.objects.filter(status="running", number__gt=0).count() == 2)
        conductor = one if f":{one.pid}:" in Job.objects.get(pk=job.pk).worker else other
        conductor.send_signal(signal.SIGTERM)
        assert conductor.wait(15) == 0
        wait_until(lambda: status_of(job) == "completed")
    runs = Run.objects.filter(job=job)
    assert set(runs.values_list("attempt", flat=True)) == {1, 2}
    assert not runs.filter(wall_ms=None).exists()
    assert runs.values("shard").distinct().count() == runs.count()


@pytest.mark.parametrize("names", [["SIGQUIT"], ["SIGTERM", "SIGQUIT"], ["SIGINT", "SIGINT"]])
def test_a_cold_shutdown_returns_a_job_at_once(open_directory: Path, names: list[str]) -> None:
    make_stand_in(open_directory, RUN_UNTIL_INTERRUPTED)
    job, path = make_job(), open_directory / "worker.log"
    with path.open("wb") as log, worker(open_directory, log=log, STOP_SECONDS="1000") as process:
        wait_until(lambda: status_of(job) == "running")
        for name in names:
            process.send_signal(signal.Signals[name])
            with suppress(TimeoutExpired):
                process.wait(1)
        process.wait(15)
    assert status_of(job) == "queued"
    assert "Traceback" not in path.read_text()
    # A slot of another worker claims it.
    assert messages() == {"sim.standard": 1}


SWEEP_OFTEN = "from jobs.execution import directories\ndirectories.SWEEP_SECONDS = 0.2"


def test_a_live_worker_removes_a_killed_ones_credentials(open_directory: Path) -> None:
    make_stand_in(open_directory, RUN_UNTIL_INTERRUPTED)
    job = make_job(has_credentials=True)
    credentials.store(job.pk, GameCredentials(client_id="a" * 32, client_secret="b" * 32), seconds=60)
    runs = open_directory / "runs"
    with worker(open_directory) as killed:
        wait_until(lambda: status_of(job) == "running")
        (left,) = runs.rglob(CREDENTIALS_NAME)
        with worker(open_directory, "-c", CHANGED.format(change=SWEEP_OFTEN)) as alive:
            wait_until_alive(alive)
            assert left.exists()
            killed.kill()
            killed.wait()
            wait_until(lambda: not left.exists())


def test_a_worker_that_cannot_be_set_up_fails(open_directory: Path) -> None:
    with worker(open_directory, "-c", CHANGED.format(change=FAILED_STEP)) as process:
        assert process.wait(30) == 1


def test_a_worker_restarts_on_sighup(open_directory: Path, redis_server: RedisServer) -> None:
    with worker(open_directory, REDIS_URL=redis_server.url) as process, Redis.from_url(redis_server.url) as client:
        wait_until(lambda: is_waiting(client) and client.zcard("workers") == 1)
        (before,) = client.zrange("workers", 0, -1)
        client.delete("workers")
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: client.zrange("workers", 0, -1) == [before] and is_waiting(client))
        assert_runs_jobs(process, client)


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis server of this test only."""
    server = RedisServer(tmp_path)
    yield server
    server.stop()


def is_waiting(client: Redis) -> bool:
    """Return whether a worker waits for a message."""
    return any(each["cmd"] == "brpop" and "b" in each["flags"] for each in client.client_list())


def assert_runs_jobs(process: "Popen[str]", client: Redis) -> None:
    """Assert that an idle worker runs a job when it receives a message, and then stops."""
    job = make_job()
    client.lpush("sim.standard", message())
    wait_until(lambda: status_of(job) == "failed", seconds=5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_an_idle_worker_outlives_a_restart_of_redis(open_directory: Path, redis_server: RedisServer) -> None:
    with worker(open_directory, REDIS_URL=redis_server.url) as process, Redis.from_url(redis_server.url) as client:
        wait_until(lambda: is_waiting(client))
        redis_server.restart()
        wait_until(lambda: is_waiting(client))
        assert_runs_jobs(process, client)


def test_an_idle_worker_outlives_error_replies(open_directory: Path, redis_server: RedisServer) -> None:
    path = open_directory / "worker.log"
    with (
        path.open("wb") as log,
        worker(open_directory, log=log, REDIS_URL=redis_server.url) as process,
        Redis.from_url(redis_server.url) as client,
    ):
        wait_until(lambda: is_waiting(client))
        client.config_set("min-replicas-to-write", 1)
        # Redis refuses the next BRPOP, which follows within a second, and the next heartbeat.
        wait_until(lambda: all(text in path.read_text() for text in ("Frequent restarts", "Redis failed")))
        client.config_set("min-replicas-to-write", 0)
        wait_until(lambda: is_waiting(client))
        assert_runs_jobs(process, client)
    counts = Counter(re.findall("Connection to broker lost|Frequent restarts|Redis failed", path.read_text()))
    assert counts["Frequent restarts"] == max(counts.values()) == 1, path.read_text()
