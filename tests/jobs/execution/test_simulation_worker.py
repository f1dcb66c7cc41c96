"""The simulation worker: how it starts, wakes up and stops."""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from django.conf import settings
from django.db import OperationalError
from pytest_django import Settings

from jobs.enums import Priority
from jobs.execution import simulation_worker
from jobs.execution.machine import Machine
from jobs.models import Artifact, Job, JobEvent, Run
from jobs.queue import claims
from simservice import shutdown
from simservice.celery import app
from simservice.shutdown import Stop
from tests.factories import make_job
from tests.jobs.lanes import messages
from tests.jobs.simulation_workers import CHANGED, WORKER, wait_until_alive, worker
from tests.jobs.simulators import LEAVE_REPORT, RUN_UNTIL_INTERRUPTED, make_stand_in, run_with_action, wait_until

SLOW_START = "simulation_worker.recover_dead_workers = lambda: print('starting', flush=True) or time.sleep(60)"


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
    job = run_with_action(lambda _: shutdown.stop.request(at_once=True))
    assert (job.status, job.retried) == ("queued", True)


@pytest.mark.django_db(transaction=True)
def test_a_stopping_worker_waits_for_jobs_to_end(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"print('running', flush=True)\ntime.sleep(1)\n{LEAVE_REPORT}")
    job = run_with_action(lambda _: shutdown.stop.request())
    assert job.status == "completed"


def test_jobs_of_a_stopping_worker_open_sockets_as_usual() -> None:
    slots = simulation_worker.Slots(None)
    slots.opened = ExitStack()
    # As Celery does while a worker stops.
    socket.setdefaulttimeout(5.0)
    try:
        slots.close(None)
        assert socket.getdefaulttimeout() is None
    finally:
        socket.setdefaulttimeout(None)
    assert shutdown.stop.is_requested


@pytest.mark.django_db(transaction=True)
def test_a_worker_runs_all_waiting_jobs() -> None:
    jobs = [make_job() for _ in range(3)]
    simulation_worker.simulate()
    error_codes = Job.objects.filter(pk__in=[job.pk for job in jobs]).values_list("error_code", flat=True)
    assert list(error_codes) == ["build_unavailable"] * 3


@pytest.mark.django_db
def test_a_slot_that_finds_no_job_claims_once(monkeypatch: pytest.MonkeyPatch) -> None:
    claims_made: list[str] = []
    monkeypatch.setattr(claims, "claim_work", lambda worker, **_: claims_made.append(worker))
    simulation_worker.simulate()
    assert (claims_made, messages()) == ([simulation_worker.slot_name()], {})


@pytest.mark.django_db
def test_a_stopping_slot_passes_its_message_on() -> None:
    make_job(priority=Priority.BACKGROUND)
    shutdown.stop.request()
    simulation_worker.simulate()
    assert messages() == {"sim.background": 1}


@pytest.mark.django_db
def test_a_slot_of_a_broken_machine_passes_its_message_on(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([False, False, True, True])
    job = make_job()
    monkeypatch.setattr(Machine, "may_claim", lambda _: next(answers))
    monkeypatch.setattr(Machine, "pause_seconds", 0.0)
    simulation_worker.simulate()
    assert (Job.objects.get(pk=job.pk).status, messages()) == ("failed", {"sim.standard": 2})


@pytest.mark.django_db
def test_a_slot_survives_a_failed_claim(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError

    job = make_job()
    with monkeypatch.context() as patch:
        patch.setattr(claims, "claim_work", fail)
        simulation_worker.simulate()
    assert [record.message.partition(":")[0] for record in caplog.records] == ["a slot stopped"]
    simulation_worker.simulate()
    assert Job.objects.get(pk=job.pk).status == "failed"


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 1)])
def test_a_worker_runs_jobs_until_it_is_asked_to_stop(
    open_directory: Path, number: signal.Signals, status: int
) -> None:
    job = make_job()
    with worker(open_directory) as process:
        wait_until_alive(process)
        wait_until(lambda: Job.objects.get(pk=job.pk).status == "failed")
        event = JobEvent.objects.get(job=job, to_status="starting")
        assert re.fullmatch(rf"claimed by {socket.gethostname()}:{process.pid}:[0-9a-f]{{8}}:\d+", event.reason)
        process.send_signal(number)
        assert process.wait(20) == status


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
    container = [sys.executable, "-m", "tests.sandbox.container", denied]
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
        assert process.wait(10) == -signal.SIGTERM


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.django_db(transaction=True)
def test_a_live_worker_answers_celery_and_keeps_its_file(open_directory: Path) -> None:
    with worker(open_directory) as process:
        wait_until_alive(process)
        name = f"celery@{socket.gethostname()}"
        wait_until(lambda: app.control.ping(timeout=1) == [{name: {"ok": "pong"}}])
        (file,) = (open_directory / "workers").iterdir()
        os.utime(file, (0, 0))
        wait_until(lambda: file.stat().st_mtime > 0)
