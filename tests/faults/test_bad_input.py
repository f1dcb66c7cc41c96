"""Jobs that are bad for the workers, many of them: those that crash at once, and those that hardly wait."""

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
from jobs import hold_audit
from jobs.models import Artifact, Build, Job, Run
from jobs.queueing import sweep
from jobs.runs import directories
from tests.billing.books import LONG
from tests.factories import PROFILE, BuildFactory, make_account, make_job
from tests.faults.invariants import orphans, simulators_left
from tests.faults.orchestra import make_fast_stand_in
from tests.faults.workers import start_worker

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.timeout(3600 if LONG else 120),
]

MANY = 1_000 if LONG else 8
SLOTS = 4
# A job that is not started in time ends with one of the next sweeps, which come every two seconds.
SWEPT_WITHIN = timedelta(seconds=30)


@pytest.fixture
def stand_in(tmp_path: Path) -> Build:
    """A simulator whose profile says how it ends, and a storage without other tests' files."""
    shutil.rmtree(default_storage.path(""), ignore_errors=True)
    return BuildFactory.create(executable=str(make_fast_stand_in(tmp_path)), readable_paths=[str(tmp_path)])


def work_off() -> list[tuple[int, int]]:
    """Let a worker end all jobs, and sweep meanwhile; return how many files and threads it had now and then."""
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


def require_nothing_left(build: Build) -> None:
    """See that nothing of the runs is left but what their rows tell."""
    assert simulators_left(Path(build.executable)) == []
    assert orphans() == []
    directories.remove_leftovers()
    assert list(directories.runs().glob("*")) == []  # no such folder, where nothing ever ran
    assert list(ledger.verify()) == []
    assert list(hold_audit.disagreements()) == []


def test_a_profile_that_crashes_the_simulator_again_and_again_harms_no_worker(stand_in: Build) -> None:
    client = default_client(make_account())
    for _ in range(MANY):
        make_job(client, text=f"{PROFILE}# stand-in: 0 crash\n")
    good = make_job(client, text=f"{PROFILE}# stand-in: 0 completed\n")
    sizes = work_off()
    ends = Counter(Job.objects.values_list("error_code", "simulator_exit_code", "attempt"))
    print(f"{ends}; files and threads of the worker {sizes[len(sizes) // 4]} … {sizes[-3:]}")  # noqa: T201
    assert ends == {("execution_failed", "SIGSEGV", 1): MANY, (None, "0", 1): 1}
    assert Job.objects.get(pk=good.pk).status == "completed"
    assert Run.objects.filter(wall_ms__isnull=False).count() == MANY + 1
    assert Artifact.objects.values("job").distinct().count() == MANY + 1
    most = max(files for files, _ in sizes[len(sizes) // 4 :])
    assert most <= max(files for files, _ in sizes[: len(sizes) // 2]) + 10 * SLOTS
    require_nothing_left(stand_in)


def test_jobs_that_hardly_wait_start_in_time_or_not_at_all(stand_in: Build) -> None:
    client = default_client(make_account())
    for _ in range(MANY):
        soon = timezone.now() + timedelta(seconds=1)
        text = f"{PROFILE}# stand-in: 0.5 completed\n"
        make_job(client, text=text, ceiling_queue_seconds=1, queue_deadline_at=soon)
    work_off()
    ends = Counter(Job.objects.values_list("status", "error_code", "attempt"))
    print(ends)  # noqa: T201
    late = ("failed", "queue_timeout", 0)
    assert set(ends) <= {("completed", None, 1), late}
    assert ends[late] > 0
    overdue = Job.objects.filter(error_code="queue_timeout")
    assert not overdue.exclude(credits_consumed=0, started_at=None).exists()
    assert not overdue.filter(completed_at__lt=F("queue_deadline_at")).exists()
    assert not overdue.filter(completed_at__gt=F("queue_deadline_at") + SWEPT_WITHIN).exists()
    require_nothing_left(stand_in)
