"""Jobs whose launcher or supervisor dies run again, and are not billed for the lost run."""

import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from jobs.execution import attempt
from jobs.models import Artifact, Job, Run
from jobs.queue import sweep
from sandbox.client import LauncherClient, LauncherFailed
from sandbox.process import ConfinedProcess
from tests.factories import make_job
from tests.jobs.simulators import claim, make_stand_in, run_with_action

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "LOST_PAUSE_SECONDS", 0.0)


@pytest.mark.parametrize("victim", ["launcher_pid", "pid"], ids=["launcher", "supervisor"])
def test_a_job_whose_launcher_dies_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str) -> None:
    make_stand_in(tmp_path, "time.sleep(60)")
    processes: list[ConfinedProcess] = []
    start = ConfinedProcess.start

    def started(process: ConfinedProcess) -> None:
        start(process)
        processes.append(process)

    monkeypatch.setattr(ConfinedProcess, "start", started)
    job = run_with_action(lambda _: os.kill(getattr(processes[0].supervisor, victim), signal.SIGKILL))
    assert (job.status, job.attempt) == ("running", 1)
    assert recovered(job).status == "queued"
    lost = Run.objects.get(job=job)
    assert (lost.stopped_for, lost.wall_ms) == ("lost", None)
    assert not Artifact.objects.exists()


def test_a_job_without_a_launcher_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_stand_in(tmp_path, "time.sleep(60)")

    def fail(*_: object) -> int:
        raise LauncherFailed("it does not start")

    monkeypatch.setattr(LauncherClient, "launch", fail)
    make_job()
    job = claim()
    attempt.execute(job)
    assert Job.objects.get(pk=job.pk).status == "starting"
    assert recovered(job).status == "queued"
    assert not Run.objects.exists()


def recovered(job: Job) -> Job:
    """Let the job's lease expire, and return the job after the next sweep."""
    Job.objects.filter(pk=job.pk).update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    sweep.sweep()
    return Job.objects.get(pk=job.pk)
