"""Jobs of killed workers: a worker that starts on the same machine recovers them, and no others."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from pytest_django import Settings

from jobs.execution import worker_processes
from jobs.execution.worker_processes import WorkerProcess, boot_id, recover_dead_workers
from jobs.lifecycle import job_moves
from jobs.models import Job, JobEvent
from jobs.queue import sweep
from tests.concurrency import at_once
from tests.factories import make_job, make_running_job
from tests.jobs.simulation_workers import status_of
from tests.jobs.simulators import wait_until

CONTAINER = ["unshare", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc"]
SAME_HOST = ["sh", "-c", 'hostname sim && exec "$@"', "sh"]
WORKER = [sys.executable, "-m", "tests.jobs.execution.worker_process"]


@pytest.fixture(autouse=True)
def _own_folder(settings: Settings, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path


def register() -> WorkerProcess:
    """Register a worker with this process's host and id."""
    worker = WorkerProcess()
    worker.register()
    return worker


def die(worker: WorkerProcess) -> None:
    """Free a worker's lock, as the kernel does when it ends."""
    assert worker.lock is not None
    worker.lock.close()


def make_job_of(worker: WorkerProcess, **fields: object) -> Job:
    """Return a running job that the first slot of a worker claimed."""
    job = make_running_job()
    Job.objects.filter(pk=job.pk).update(worker=f"{worker.name}:77", **fields)
    return job


def files() -> list[str]:
    return sorted(path.name for path in (settings.DATA_DIR / "workers").iterdir())


@contextmanager
def started(*prefix: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Start a worker that claims a job; yield it with its name, the jobs it recovered and its job."""
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    environment = os.environ | {"DATABASE_URL": url, "DATA_DIR": str(settings.DATA_DIR)}
    command = [*prefix, *WORKER]
    with subprocess.Popen(
        command, cwd=settings.BASE_DIR, env=environment, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        try:
            yield worker, worker.stdout.readline().split()
        finally:
            worker.kill()


@pytest.mark.django_db
def test_a_dead_workers_jobs_return_to_the_queue_at_once() -> None:
    worker = register()
    job = make_job_of(worker)
    die(worker)
    assert recover_dead_workers() == 1
    job.refresh_from_db()
    assert (job.status, job.attempt, job.retried, job.worker) == ("queued", 1, True, "")
    assert [(run.wall_ms, run.stopped_for) for run in job.runs.all()] == [(None, "lost")]
    assert JobEvent.objects.filter(job=job, reason=f"{worker.name}:77 was killed").count() == 1
    assert files() == []


@pytest.mark.django_db
def test_jobs_of_live_workers_with_the_same_pid_are_kept() -> None:
    # Like a dead worker whose process id was reused.
    dead, alive = register(), register()
    lost, kept = make_job_of(dead), make_job_of(alive)
    die(dead)
    assert recover_dead_workers() == 1
    assert (status_of(lost), status_of(kept)) == ("queued", "running")
    assert recover_dead_workers() == 0
    die(alive)


@pytest.mark.django_db
def test_jobs_of_workers_without_a_file_are_kept() -> None:
    job = make_running_job()
    assert recover_dead_workers() == 0
    assert status_of(job) == "running"


@pytest.mark.django_db
def test_jobs_of_other_machines_are_left_to_their_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = register()
    job = make_job_of(worker)
    die(worker)
    monkeypatch.setattr(worker_processes, "boot_id", lambda: "another")
    assert recover_dead_workers() == 0
    assert status_of(job) == "running"
    assert files() == [f"{boot_id()}.{worker.name}"]


@pytest.mark.django_db
def test_old_files_of_earlier_boots_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    dead, alive, recent = register(), register(), register()
    for worker in (dead, alive):
        path = settings.DATA_DIR / "workers" / f"{boot_id()}.{worker.name}"
        os.utime(path, (time.time() - worker_processes.FORGOTTEN_SECONDS - 9,) * 2)
    die(dead)
    die(recent)
    monkeypatch.setattr(worker_processes, "boot_id", lambda: "another")
    recover_dead_workers()
    assert sorted(name.partition(".")[2] for name in files()) == sorted([alive.name, recent.name])
    die(alive)


@pytest.mark.django_db
def test_without_a_boot_id_nothing_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_processes, "BOOT_ID", Path("/nonexistent"))
    assert register().lock is None
    assert recover_dead_workers() == 0


@pytest.mark.django_db
def test_after_the_last_attempt_the_job_is_interrupted() -> None:
    worker = register()
    job = make_job_of(worker, attempt=3)
    die(worker)
    assert recover_dead_workers() == 1
    job.refresh_from_db()
    assert (job.status, job.error_code, job.credits_consumed) == ("failed", "execution_interrupted", 0)


@pytest.mark.django_db
def test_a_recovery_after_the_lease_expired_changes_nothing() -> None:
    worker = register()
    stale = make_job_of(worker)
    stale.refresh_from_db()
    assert job_moves.requeue(Job.objects.get(pk=stale.pk), reason="the lease expired")
    again = job_moves.claim_job("another:1:x:1")
    assert again is not None
    assert not sweep.recover(stale, reason="killed")
    assert (status_of(stale), Job.objects.get(pk=stale.pk).attempt) == ("starting", 2)
    die(worker)
    assert recover_dead_workers() == 0


@pytest.mark.django_db(transaction=True)
def test_a_broken_file_does_not_stop_the_recovery(caplog: pytest.LogCaptureFixture) -> None:
    worker = register()
    job = make_job_of(worker)
    die(worker)
    folder = settings.DATA_DIR / "workers"
    (folder / "0.directory").mkdir()
    (folder / "0.link").symlink_to("nowhere")
    (folder / os.fsdecode(boot_id().encode() + b".\xff:1:00000000")).touch()
    assert recover_dead_workers() == 1
    assert status_of(job) == "queued"
    logged = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(logged) == 3
    assert all("wait until their leases expire" in text for text in logged)


@pytest.mark.django_db(transaction=True)
def test_a_failed_recovery_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = [register(), register()]
    jobs = [make_job_of(worker) for worker in workers]
    for worker in workers:
        die(worker)
    recover, failures = sweep.recover, iter([OperationalError])

    def fail_once(*args: Any, **options: Any) -> Any:
        for failure in failures:
            raise failure
        return recover(*args, **options)

    monkeypatch.setattr(sweep, "recover", fail_once)
    assert recover_dead_workers() == 1
    assert sorted(map(status_of, jobs)) == ["queued", "running"]
    # The file remains for the next worker that starts.
    assert recover_dead_workers() == 1
    assert [status_of(job) for job in jobs] == ["queued", "queued"]


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["", "host", "host:1", "host:1:00", "host:1:00000000:77"])
def test_a_file_with_an_invalid_name_recovers_no_jobs(name: str) -> None:
    job = make_running_job()
    Job.objects.filter(pk=job.pk).update(worker="host:1:00000000:77:1")
    (settings.DATA_DIR / "workers").mkdir()
    (settings.DATA_DIR / "workers" / f"{boot_id()}.{name}").touch()
    assert recover_dead_workers() == 0
    assert status_of(job) == "running"


def test_a_refresh_makes_a_workers_file_new() -> None:
    worker = register()
    path = settings.DATA_DIR / "workers" / f"{boot_id()}.{worker.name}"
    os.utime(path, (0, 0))
    worker.refresh()
    assert path.stat().st_mtime > time.time() - 60
    die(worker)


@pytest.mark.django_db(transaction=True)
def test_workers_that_start_at_once_recover_each_job_once() -> None:
    workers = [register() for _ in range(3)]
    jobs = [make_job_of(worker) for worker in workers * 3]
    for worker in workers:
        die(worker)
    counts: list[int] = []
    at_once(4, lambda: counts.append(recover_dead_workers()))
    assert sum(counts) == len(jobs)
    assert JobEvent.objects.filter(from_status="running", to_status="queued").count() == len(jobs)
    assert files() == []


@pytest.mark.slow
@pytest.mark.timeout(90)
@pytest.mark.django_db(transaction=True)
def test_only_jobs_of_killed_processes_are_recovered() -> None:
    first = make_job()
    with started() as (killed, (_, recovered, held)):
        assert (recovered, held) == ("0", str(first.pk))
        second = make_job()
        with started() as (_, (_, recovered, held)):
            assert (recovered, held) == ("0", str(second.pk))
            killed.kill()
            killed.wait()
            with started() as (_, (_, recovered, held)):
                assert (recovered, held) == ("1", str(first.pk))
                assert Job.objects.get(pk=second.pk).attempt == 1


def can_unshare() -> bool:
    """Return whether the kernel allows containers to be made here."""
    return subprocess.run([*CONTAINER, *SAME_HOST, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.timeout(90)
@pytest.mark.django_db(transaction=True)
def test_containers_with_one_host_name_keep_their_jobs() -> None:
    if not can_unshare():
        pytest.skip("the kernel allows no containers here")
    first, second = make_job(), make_job()
    with started(*CONTAINER, *SAME_HOST) as (killed, (name, recovered, held)):
        assert (name, recovered, held) == ("sim:1", "0", str(first.pk))
        with started(*CONTAINER, *SAME_HOST) as (_, (name, recovered, held)):
            assert (name, recovered, held) == ("sim:1", "0", str(second.pk))
            killed.kill()
            killed.wait()
            wait_until(lambda: recover_dead_workers() == 1)
            assert (status_of(first), status_of(second)) == ("queued", "starting")
