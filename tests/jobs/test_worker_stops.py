"""Processes of simulation workers that are stopped during a job, and that lose Redis."""

import signal
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest
from redis import Redis

from jobs import credentials
from jobs.credentials import GameCredentials
from jobs.models import Job
from jobs.queueing.announcements import HINTS
from jobs.simulator.command import CREDENTIALS_NAME
from simservice import consumer
from tests.factories import make_job
from tests.faults.redis_server import RedisServer
from tests.jobs.simulation_workers import CHANGED, wait_until_alive, worker
from tests.jobs.simulators import LEAVE_REPORT, RUN_UNTIL_INTERRUPTED, make_stand_in, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60), pytest.mark.django_db(transaction=True)]
SHORT_RUN = f"print('running', flush=True)\ntime.sleep(1)\n{LEAVE_REPORT}"
FAILED_STEP = "from jobs.runs import directories\ndirectories.sweep_leftovers = lambda: 1 / 0"


def status_of(job: Job) -> str:
    return Job.objects.values_list("status", flat=True).get(pk=job.pk)


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


SWEEP_OFTEN = "from jobs.runs import directories\ndirectories.SWEEP_SECONDS = 0.2"


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
        wait_until(lambda: waits(client) == {"brpop", "bzpopmin"})
        (before,) = client.zrange("workers", 0, -1)
        client.delete("workers")
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: client.zrange("workers", 0, -1) == [before] and waits(client) == {"brpop", "bzpopmin"})
        assert_runs_jobs(process, client)


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis server of this test only."""
    server = RedisServer(tmp_path)
    yield server
    server.stop()


def waits(client: Redis) -> set[str]:
    """Return the commands that wait in Redis: `bzpopmin` of an idle slot, and `brpop` of Celery."""
    return {each["cmd"] for each in client.client_list() if "b" in each["flags"]}


def assert_runs_jobs(process: "Popen[str]", client: Redis) -> None:
    """Assert that an idle worker runs a job when it receives a hint, and then stops."""
    job = make_job()
    client.zadd(HINTS, {"": 0})
    wait_until(lambda: status_of(job) == "failed", seconds=5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0


def test_an_idle_worker_outlives_a_restart_of_redis(open_directory: Path, redis_server: RedisServer) -> None:
    with worker(open_directory, REDIS_URL=redis_server.url) as process, Redis.from_url(redis_server.url) as client:
        wait_until(lambda: waits(client) == {"brpop", "bzpopmin"})
        redis_server.restart()
        wait_until(lambda: waits(client) == {"brpop", "bzpopmin"})
        assert_runs_jobs(process, client)


def test_an_idle_worker_outlives_error_replies(open_directory: Path, redis_server: RedisServer) -> None:
    path = open_directory / "worker.log"
    with (
        path.open("wb") as log,
        worker(open_directory, log=log, REDIS_URL=redis_server.url) as process,
        Redis.from_url(redis_server.url) as client,
    ):
        wait_until(lambda: waits(client) == {"brpop", "bzpopmin"})
        client.config_set("min-replicas-to-write", 1)
        # Redis refuses the next BRPOP, which follows within five seconds.
        wait_until(lambda: path.read_text().count("Connection to broker lost") == 2)
        since = path.read_text().partition("Connection to broker lost")[2]
        assert "NOREPLICAS" in since
        # At most one line every two seconds
        assert since.count("\n") <= consumer.ERROR_PAUSE_SECONDS / 2
        client.config_set("min-replicas-to-write", 0)
        wait_until(lambda: waits(client) == {"brpop", "bzpopmin"})
        assert_runs_jobs(process, client)
