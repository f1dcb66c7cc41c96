"""Simulation workers on the lanes' Celery queues: order, free slots, lanes of their own, and what Celery shows."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import pytest
import requests
from django.db import connection

from jobs.enums import Priority
from jobs.models import Job, JobEvent
from jobs.queue import announcements
from localstack.redis_server import free_port
from simservice.celery import app
from simservice.redis.client import redis
from tests.factories import make_account, make_client, make_job
from tests.jobs.lanes import message, messages
from tests.jobs.simulation_workers import CELERY, CONTROL, WORKER, wait_until_alive, worker
from tests.jobs.simulators import LEAVE_REPORT, RUN_UNTIL_INTERRUPTED, make_stand_in
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120), pytest.mark.django_db(transaction=True)]
SLOTS = 4
LONG_RUN = RUN_UNTIL_INTERRUPTED.replace("sleep(60)", "sleep(600)")


def slots(count: int, name: str = "celery") -> list[str]:
    """Return the command of a worker with `count` slots."""
    return [*WORKER, "--concurrency", str(count), "--hostname", f"{name}@%h"]


def running() -> int:
    return Job.objects.filter(status="running").count()


def test_jobs_start_in_strict_order(open_directory: Path) -> None:
    make_stand_in(open_directory, LEAVE_REPORT)
    client = make_client(make_account())
    jobs = [make_job(client, priority=random.choice(Priority.values)) for _ in range(60)]  # noqa: S311
    for job in random.sample(jobs, len(jobs)):
        announcements.announce(job)
    with worker(open_directory, *slots(1)):
        wait_until(lambda: not Job.objects.filter(completed_at=None).exists(), seconds=60)
        wait_until(lambda: messages() == {})
    started = JobEvent.objects.filter(to_status="starting").order_by("id").values_list("job_id", flat=True)
    assert list(started) == [job.pk for job in sorted(jobs, key=lambda job: (job.priority, job.pk))]


@contextmanager
def two_workers(folder: Path) -> Iterator[None]:
    """Run two workers with SLOTS slots each."""
    with ExitStack() as opened:
        for name in ("first", "second"):
            (folder / name).mkdir()
            wait_until_alive(opened.enter_context(worker(folder / name, *slots(SLOTS, name))))
        yield


def test_no_message_waits_for_a_busy_slot(open_directory: Path) -> None:
    """Six of eight slots are busy. If a busy worker took a message in advance, one of the next jobs would wait."""
    make_stand_in(open_directory, LONG_RUN)
    client = make_client(make_account())
    with two_workers(open_directory):
        for _ in range(2 * SLOTS):
            announcements.announce(make_job(client))
            wait_until(lambda: not Job.objects.exclude(status="running").exists())
        assert messages() == {}
        announcements.announce(make_job(client))
        time.sleep(1)
        assert messages() == {"sim.standard": 1}


def test_a_slot_that_has_ended_its_job_receives_the_next_message(open_directory: Path) -> None:
    """No job waits after a pair, so both slots return to Celery, which must notice each of them at once."""
    make_stand_in(open_directory, LEAVE_REPORT)
    client = make_client(make_account())
    delays = []
    with worker(open_directory, *slots(2)) as process:
        wait_until_alive(process)
        for _ in range(10):
            pair = [make_job(client) for _ in range(2)]
            for job in pair:
                announcements.announce(job)
            wait_until(lambda: not Job.objects.filter(completed_at=None).exists())
            delays.append(max(seconds_until_start(job) for job in pair))
    assert median(delays) < 0.3


def seconds_until_start(job: Job) -> float:
    """Return the seconds between the announcement of a job and its claim."""
    moments = dict(JobEvent.objects.filter(job=job).values_list("to_status", "at"))
    return float((moments["starting"] - moments["queued"]).total_seconds())


def test_a_lane_can_have_its_own_worker(open_directory: Path) -> None:
    make_stand_in(open_directory, LEAVE_REPORT)
    client = make_client(make_account())
    jobs = {lane: make_job(client, priority=lane) for lane in Priority}
    with worker(open_directory, *WORKER[:3], "worker", "--queues", "sim.background", "--pool", "threads"):
        for job in jobs.values():
            announcements.announce(job)
        wait_until(lambda: Job.objects.get(pk=jobs[Priority.BACKGROUND].pk).completed_at is not None)
        assert set(Job.objects.filter(completed_at=None)) == {jobs[Priority.HIGH], jobs[Priority.STANDARD]}
        assert messages() == {"sim.high": 1, "sim.standard": 1}
        # An operator adds a lane to the running worker.
        app.control.add_consumer("sim.standard")
        wait_until(lambda: Job.objects.get(pk=jobs[Priority.STANDARD].pk).completed_at is not None)
        app.control.cancel_consumer("sim.background")
        wait_until(lambda: "sim.background" not in str(app.control.inspect().active_queues()))
        announcements.announce(make_job(client, priority=Priority.BACKGROUND))
        announcements.announce(make_job(client, priority=Priority.STANDARD))
        wait_until(lambda: Job.objects.filter(completed_at=None).count() == 2)
        assert messages() == {"sim.high": 1, "sim.background": 1}


def test_a_worker_that_started_without_a_lane_runs_no_jobs(open_directory: Path) -> None:
    """Without a destination, `celery control add_consumer` also changes the workers of other queues."""
    log = open_directory / "log"
    with log.open("wb") as file, worker(open_directory, *CONTROL, log=file) as process:
        wait_until(lambda: bool(app.control.ping()))
        app.control.add_consumer("sim.standard")
        job = make_job()
        announcements.announce(job)
        wait_until(lambda: "runs no jobs" in log.read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert Job.objects.get(pk=job.pk).status == "queued"


@pytest.mark.parametrize("pool", ["prefork", "solo"])
def test_slots_must_be_threads(open_directory: Path, pool: str) -> None:
    arguments = ["--queues", "sim.high", "--pool", pool, "--concurrency", "1"]
    with worker(open_directory, *CELERY, "worker", *arguments) as process:
        assert process.wait(30) == 1


def test_an_idle_worker_has_no_database_connection(open_directory: Path) -> None:
    with worker(open_directory, *slots(1)):
        wait_until(lambda: bool(app.control.ping()))
        wait_until(lambda: other_connections() == 0)


def other_connections() -> int:
    """Return how many connections other processes have to the test's database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


def test_celery_lists_the_running_jobs(open_directory: Path) -> None:
    make_stand_in(open_directory, LONG_RUN)
    job = make_job()
    with worker(open_directory, *slots(1)):
        wait_until(lambda: running() == 1)
        (tasks,) = (app.control.inspect(timeout=5).active() or {}).values()
        assert [task["name"] for task in tasks] == [announcements.TASK]
        listed = subprocess.run(
            [sys.executable, *CELERY, "inspect", "slots", "--json"], capture_output=True, text=True, check=True
        )
        ((slot, found),) = next(iter(json.loads(listed.stdout).values())).items()
        assert found == {"job": str(job.pk), "attempt": 1}
        assert slot == Job.objects.get().worker


def test_flower_lists_the_running_jobs(open_directory: Path) -> None:
    make_stand_in(open_directory, LONG_RUN)
    port = free_port()
    flower = [sys.executable, *CELERY, "flower", f"--port={port}", "--address=127.0.0.1"]
    address = f"http://127.0.0.1:{port}/api"
    with ExitStack() as opened:
        wait_until_alive(opened.enter_context(worker(open_directory, *slots(2))))
        opened.enter_context(worker(open_directory, *flower[1:], FLOWER_UNAUTHENTICATED_API="true"))
        wait_until(lambda: is_open(port))
        wait_until(lambda: bool(requests.get(f"{address}/workers?refresh=1", timeout=30).json()))
        # Flower itself does this only a few seconds later.
        app.control.enable_events(reply=True)
        client = make_client(make_account())
        for _ in range(2):
            announcements.announce(make_job(client))
        wait_until(lambda: running() == 2)
        (found,) = requests.get(f"{address}/workers?refresh=1", timeout=30).json().values()
        assert [task["name"] for task in found["active"]] == [announcements.TASK] * 2
        assert {queue["name"] for queue in found["active_queues"]} == {
            announcements.queue_of(lane) for lane in Priority
        }
        wait_until(lambda: started_tasks(address) == [announcements.TASK] * 2)


def started_tasks(address: str) -> list[str]:
    """Return the names of the tasks that Flower shows as started."""
    found = requests.get(f"{address}/tasks?state=STARTED", timeout=30).json()
    return [task["name"] for task in found.values()]


def is_open(port: int) -> bool:
    try:
        return bool(requests.get(f"http://127.0.0.1:{port}/healthcheck", timeout=1).ok)
    except requests.RequestException:
        return False


def changed(**headers: object) -> str:
    """Return a message to a slot with other headers."""
    stored = json.loads(message())
    stored["headers"] |= headers
    return json.dumps(stored)


def with_fields(**fields: object) -> str:
    """Return a message to a slot with other fields."""
    return json.dumps(json.loads(message()) | fields)


NO_SUCH_TASK = {"task": "os.system"}
IN_A_YEAR = {"eta": "2027-12-01T00:00:00+00:00"}
EXPIRED = {"expires": "2020-01-01T00:00:00+00:00"}
WITH_ARGUMENTS = {"body": "W1siYSJdLCB7ImIiOiAxfSwge31d"}


def test_bad_messages_are_logged_once_and_harm_nothing(open_directory: Path) -> None:
    make_stand_in(open_directory, LEAVE_REPORT)
    messages = [changed(**headers) for headers in (NO_SUCH_TASK, IN_A_YEAR, EXPIRED)]
    messages += [with_fields(**WITH_ARGUMENTS), with_fields(**{"content-type": "application/x-python-serialize"})]
    # A live worker could take it before it is read.
    messages.append(message())
    log = open_directory / "log"
    with log.open("wb") as file, worker(open_directory, *slots(1), log=file) as process:
        wait_until_alive(process)
        redis().lpush("sim.standard", *messages)
        job = make_job()
        announcements.announce(job)
        wait_until(lambda: Job.objects.get(pk=job.pk).completed_at is not None)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert JobEvent.objects.filter(job=job, to_status="starting").count() == 1
    lines = [line for line in log.read_text().splitlines() if " ERROR " in line or " CRITICAL " in line]
    assert len(lines) == 3


@pytest.mark.parametrize("fields", [None, {"body": "!!"}])
def test_an_unreadable_message_only_restarts_the_worker(
    open_directory: Path, fields: dict[str, object] | None
) -> None:
    make_stand_in(open_directory, RUN_UNTIL_INTERRUPTED)
    text = "no JSON" if fields is None else with_fields(**fields)
    job = make_job()
    with worker(open_directory, *slots(2), STOP_SECONDS="1") as process:
        wait_until(lambda: running() == 1)
        redis().lpush("sim.high", text)
        assert process.wait(30) == 1
    job.refresh_from_db()
    assert (job.status, messages()) == ("queued", {"sim.standard": 1})
