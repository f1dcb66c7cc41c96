"""Many jobs that crash at once or expire in the queue."""

import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from django.core.files.storage import default_storage
from django.db.models import F
from django.utils import timezone

from billing import ledger
from clients.accounts import default_client
from jobs.execution import directories
from jobs.models import Artifact, Build, Job, Run
from jobs.operations import hold_audit
from jobs.queue import sweep
from tests.billing.ledger_state import LONG
from tests.factories import PROFILE, BuildFactory, make_account, make_job
from tests.faults.invariants import orphans, simulators_left
from tests.faults.processes import start_worker
from tests.faults.stand_in import make_fast_stand_in

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.timeout(3600 if LONG else 120),
]

MANY = 1_000 if LONG else 8
SLOTS = 4
# About twice what a busy slot needs. A file left by each of a thousand crashes would be far more.
FILES_PER_SLOT = 25
# Jobs past their queue deadline end with one of the next sweeps, which run every two seconds.
SWEPT_WITHIN = timedelta(seconds=30)


@pytest.fixture
def stand_in(tmp_path: Path) -> Build:
    """A simulator whose profile sets its exit status, and an empty storage."""
    shutil.rmtree(default_storage.path(""), ignore_errors=True)
    return BuildFactory.create(executable=str(make_fast_stand_in(tmp_path)), readable_paths=[str(tmp_path)])


def run_all_jobs() -> list[tuple[int, int]]:
    """Run all jobs and sweep meanwhile; return samples of the worker's open files and threads."""
    worker = start_worker(slots=SLOTS)
    process, sizes = psutil.Process(worker.pid), []
    while worker.poll() is None:
        sweep.sweep()
        try:
            sizes.append((process.num_fds(), process.num_threads()))
            process.wait(0.5)
        except (psutil.TimeoutExpired, psutil.NoSuchProcess):
            continue
    assert worker.wait() == 0
    return sizes


def assert_nothing_left(build: Build) -> None:
    """Assert that the runs left no processes, files or holds."""
    assert simulators_left(Path(build.executable)) == []
    assert orphans() == []
    directories.remove_leftovers()
    assert list(directories.runs().glob("*")) == []  # the folder may not exist
    assert list(ledger.verify()) == []
    assert list(hold_audit.discrepancies()) == []


def test_repeated_simulator_crashes_leak_nothing_in_the_worker(stand_in: Build) -> None:
    client = default_client(make_account())
    for _ in range(MANY):
        make_job(client, text=f"{PROFILE}# stand-in: 0 crash\n")
    completing = make_job(client, text=f"{PROFILE}# stand-in: 0 completed\n")
    sizes = run_all_jobs()
    outcomes = Counter(Job.objects.values_list("error_code", "simulator_exit_code", "attempt"))
    print(f"{outcomes}; files and threads of the worker {sizes[len(sizes) // 4]} … {sizes[-3:]}")  # noqa: T201
    assert outcomes == {("execution_failed", "SIGSEGV", 1): MANY, (None, "0", 1): 1}
    assert Job.objects.get(pk=completing.pk).status == "completed"
    assert Run.objects.filter(wall_ms__isnull=False).count() == MANY + 1
    assert Artifact.objects.values("job").distinct().count() == MANY + 1
    assert max(files for files, _ in sizes) <= FILES_PER_SLOT * SLOTS
    assert_nothing_left(stand_in)


def test_jobs_past_their_queue_deadline_never_start(stand_in: Build) -> None:
    client = default_client(make_account())
    for _ in range(MANY):
        soon = timezone.now() + timedelta(seconds=1)
        text = f"{PROFILE}# stand-in: 0.5 completed\n"
        make_job(client, text=text, ceiling_queue_seconds=1, queue_deadline_at=soon)
    run_all_jobs()
    outcomes = Counter(Job.objects.values_list("status", "error_code", "attempt"))
    print(outcomes)  # noqa: T201
    late = ("failed", "queue_timeout", 0)
    assert set(outcomes) <= {("completed", None, 1), late}
    assert outcomes[late] > 0
    overdue = Job.objects.filter(error_code="queue_timeout")
    assert not overdue.exclude(credits_consumed=0, started_at=None).exists()
    assert not overdue.filter(completed_at__lt=F("queue_deadline_at")).exists()
    assert not overdue.filter(completed_at__gt=F("queue_deadline_at") + SWEPT_WITHIN).exists()
    assert_nothing_left(stand_in)
