"""The simulation worker: how it starts, wakes up and stops."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from pytest_django import Settings

from jobs import shutdown, simulation_worker
from jobs.models import Artifact, Job, Run
from jobs.shutdown import Stop
from tests.factories import make_job
from tests.jobs.simulators import LEAVE_REPORT, RUN_UNTIL_INTERRUPTED, make_stand_in, run_with_action


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
def test_a_stopping_worker_waits_for_jobs_to_end(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"print('running', flush=True)\ntime.sleep(1)\n{LEAVE_REPORT}")
    job = run_with_action(lambda _: shutdown.stop.request())
    assert job.status == "completed"


@pytest.mark.django_db(transaction=True)
def test_a_worker_runs_all_waiting_jobs() -> None:
    jobs = [make_job() for _ in range(3)]
    simulation_worker.simulate()
    error_codes = Job.objects.filter(pk__in=[job.pk for job in jobs]).values_list("error_code", flat=True)
    assert list(error_codes) == ["build_unavailable"] * 3


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
        [*container, sys.executable, "manage.py", "simworker"],
        cwd=settings.BASE_DIR,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode != 0
    assert f"No simulator can run here with SANDBOX={mode}: the sandbox lacks: {missing}" in done.stderr
