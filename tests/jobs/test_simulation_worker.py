"""The simulation worker: how it starts, wakes up and stops."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from django.conf import settings
from django.db import OperationalError
from pytest_django import Settings

from jobs import shutdown, simulation_worker
from jobs.execution import attempt
from jobs.models import Artifact, Job, JobEvent, Run
from jobs.queueing import announcements, claims
from jobs.shards.moves import ClaimedShard
from jobs.shutdown import Stop
from simservice.celery import app
from simservice.redis.client import redis
from tests.factories import make_account, make_client, make_job
from tests.jobs.idle_slots import idle_slots, wait_for_idle
from tests.jobs.simulation_workers import CHANGED, WORKER, wait_until_alive, worker
from tests.jobs.simulators import LEAVE_REPORT, RUN_UNTIL_INTERRUPTED, make_stand_in, run_with_action, wait_until

SLOW_START = "simulation_worker.recover_dead_workers = lambda: print('starting', flush=True) or time.sleep(60)"
DYING_SLOT = "simulation_worker.simulate = sys.exit"


@pytest.fixture(autouse=True)
def _own_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the process's stop flag, which cannot be cleared."""
    monkeypatch.setattr(shutdown, "stop", Stop())


@pytest.mark.django_db
def test_a_stopping_worker_claims_nothing() -> None:
    job = make_job()
    shutdown.stop.request()
    simulation_worker.simulate()
    assert Job.objects.get(pk=job.pk).status == "pending"


@pytest.mark.django_db(transaction=True)
def test_a_stopping_worker_requeues_running_jobs(tmp_path: Path, settings: Settings) -> None:
    settings.STOP_SECONDS = 0.2
    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED)
    job = run_with_action(lambda _: shutdown.stop.request())
    assert (job.status, job.retried, job.worker, job.credits_consumed) == ("queued", True, "", None)
    run = Run.objects.get(job=job)
    assert (run.stopped_for, run.wall_ms) == ("lost", None)
    assert not Artifact.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_cold_shutdown_requeues_running_jobs_at_once(tmp_path: Path, settings: Settings) -> None:
    settings.STOP_SECONDS = 1000
    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED)
    job = run_with_action(lambda _: simulation_worker.request_stop(how="Cold"))
    assert (job.status, job.retried) == ("queued", True)


@pytest.mark.django_db(transaction=True)
def test_a_stopping_worker_waits_for_jobs_to_end(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"print('running', flush=True)\ntime.sleep(1)\n{LEAVE_REPORT}")
    job = run_with_action(lambda _: shutdown.stop.request())
    assert job.status == "completed"


@pytest.mark.usefixtures("empty_redis")
def test_jobs_of_a_stopping_worker_open_sockets_as_usual() -> None:
    timeouts: list[float | None] = []

    def end() -> None:
        wait_until(lambda: shutdown.stop.is_requested)
        timeouts.append(socket.getdefaulttimeout())

    slots = simulation_worker.Slots(None)
    slots.opened, slots.threads = ExitStack(), [threading.Thread(target=end)]
    slots.threads[0].start()
    # As Celery does while a worker stops.
    socket.setdefaulttimeout(5.0)
    try:
        slots.close(None)
    finally:
        socket.setdefaulttimeout(None)
    assert timeouts == [None]


@pytest.mark.django_db(transaction=True)
def test_a_worker_runs_all_waiting_jobs() -> None:
    jobs = [make_job() for _ in range(3)]
    simulation_worker.simulate()
    error_codes = Job.objects.filter(pk__in=[job.pk for job in jobs]).values_list("error_code", flat=True)
    assert list(error_codes) == ["build_unavailable"] * 3


@pytest.mark.django_db
def test_a_woken_slot_wakes_one_more_if_jobs_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr(attempt, "execute", lambda _: sent.append(int(str(redis().delete(announcements.HINTS)))))
    for _ in range(3):
        make_job()
    simulation_worker.simulate()
    assert sent == [1, 0, 0]


@pytest.mark.django_db
def test_a_slot_that_finds_no_job_claims_once(empty_claims: list[int]) -> None:
    simulation_worker.simulate()
    assert (empty_claims, redis().exists(announcements.HINTS)) == ([1], 0)


@pytest.fixture
def empty_claims(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with each claim that finds no job."""
    found_nothing: list[int] = []
    claim = claims.claim

    def record(worker: str) -> Job | ClaimedShard | None:
        claimed = claim(worker)
        if claimed is None:
            found_nothing.append(1)
        return claimed

    monkeypatch.setattr(claims, "claim", record)
    return found_nothing


@contextmanager
def running_slots(count: int) -> Iterator[None]:
    """Run slots; end their threads at the end of the block."""
    slots = [threading.Thread(target=simulation_worker.run_slot) for _ in range(count)]
    for slot in slots:
        slot.start()
    try:
        yield
    finally:
        shutdown.stop.request()
        while any(slot.is_alive() for slot in slots):
            announcements.interrupt_waits()
            time.sleep(0.01)


@pytest.mark.django_db(transaction=True)
def test_a_burst_leaves_no_hints_and_few_empty_claims(empty_claims: list[int]) -> None:
    client = make_client(make_account())
    for _ in range(60):
        announcements.announce(make_job(client))
    with running_slots(4):
        wait_until(lambda: not Job.objects.filter(completed_at=None).exists() and idle_slots() == 4)
        assert not redis().exists(announcements.HINTS)
        # Each slot ends with one empty claim. So does each hint: that of the last announcement and one from each
        # slot.
        assert len(empty_claims) <= 4 + 1 + 4


@pytest.mark.django_db(transaction=True)
def test_one_hint_wakes_all_idle_slots_while_jobs_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    busy, done = threading.Semaphore(0), threading.Event()

    def execute(_: Job) -> None:
        busy.release()
        done.wait(30)

    monkeypatch.setattr(attempt, "execute", execute)
    with running_slots(16):
        wait_for_idle(16)
        client = make_client(make_account())
        for _ in range(20):
            make_job(client)
        announcements.send_hint()
        for _ in range(16):
            assert busy.acquire(timeout=10)
        shutdown.stop.request()
        done.set()


@pytest.mark.django_db(transaction=True)
def test_a_slot_survives_a_failed_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    claim, failed = claims.claim, threading.Semaphore(0)

    def fail(_: str) -> None:
        failed.release()
        raise OperationalError

    monkeypatch.setattr(simulation_worker, "RETRY_SECONDS", 0.05)
    with running_slots(1):
        wait_for_idle(1)
        monkeypatch.setattr(claims, "claim", fail)
        announcements.send_hint()
        # The slot claims again without another hint.
        for _ in range(2):
            assert failed.acquire(timeout=10)
        job = make_job()
        monkeypatch.setattr(claims, "claim", claim)
        wait_until(lambda: Job.objects.get(pk=job.pk).status == "failed")


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 1), (signal.SIGQUIT, 0)])
def test_a_worker_runs_jobs_until_it_is_asked_to_stop(
    open_directory: Path, number: signal.Signals, status: int
) -> None:
    job = make_job()
    with worker(open_directory) as process:
        wait_until_alive(process)
        wait_until(lambda: Job.objects.get(pk=job.pk).status == "failed" and idle_slots() == 1)
        event = JobEvent.objects.get(job=job, to_status="starting")
        assert re.fullmatch(rf"claimed by {socket.gethostname()}:{process.pid}:[0-9a-f]{{8}}:\d+", event.reason)
        process.send_signal(number)
        assert process.wait(10) == status
    # Its idle slot may have taken a hint.
    assert redis().exists(announcements.HINTS)


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("mode", "denied", "missing"),
    [("required", "landlock,unshare,clone", "file system view, network namespace"), ("auto", "seccomp", "seccomp")],
)
def test_a_worker_does_not_start_without_its_sandbox(
    open_directory: Path, mode: str, denied: str, missing: str
) -> None:
    environment = os.environ | {"SANDBOX": mode, "DATA_DIR": str(open_directory)}
    container = [sys.executable, "-m", "tests.jobs.simulator.container", denied]
    done = subprocess.run(
        [*container, sys.executable, *WORKER],
        cwd=settings.BASE_DIR,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 1
    assert f"No simulator can run here with SANDBOX={mode}: the sandbox lacks: {missing}" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.django_db(transaction=True)
def test_a_worker_that_is_starting_stops_at_once(open_directory: Path) -> None:
    with worker(open_directory, "-c", CHANGED.format(change=SLOW_START)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "starting\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.django_db(transaction=True)
def test_a_worker_whose_slot_has_died_fails(open_directory: Path) -> None:
    with worker(open_directory, "-c", CHANGED.format(change=DYING_SLOT)) as process:
        assert process.wait(30) == 1


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.django_db(transaction=True)
def test_a_live_worker_answers_celery_and_keeps_its_file(open_directory: Path) -> None:
    with worker(open_directory) as process:
        name = wait_until_alive(process)
        wait_until(lambda: app.control.ping(timeout=1) == [{name: {"ok": "pong"}}])
        (file,) = (open_directory / "workers").iterdir()
        os.utime(file, (0, 0))
        wait_until(lambda: file.stat().st_mtime > 0)
