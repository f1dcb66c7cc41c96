"""A simulation worker on a full or broken machine: its log says so, and other workers get its jobs."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from django.db import DatabaseError

from jobs.artifacts.artifact_files import NotStored
from jobs.enums import Priority, ReturnCause, Status
from jobs.execution import runner
from jobs.execution.lease import LeaseLost
from jobs.execution.machine import DISK_FULL, Machine, MachineFault, RunLost
from jobs.models import Build, Job, JobEvent
from jobs.queue import announcements
from sandbox.layers import SandboxUnavailable
from simservice import worker_heartbeats
from tests.factories import make_job
from tests.jobs.simulation_workers import CHANGED, wait_until_alive, worker
from tests.jobs.simulators import wait_until
from tests.small_disk import fill, small_disk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.timeout(200)]
NAMED = "A disk of this machine is full. Free space on the disks of DATA_DIR and TMPDIR."
TEXT = 'mage="A"\nlevel=80\niterations=5\n'
# As if no worker looked at its free space before a claim.
KEEPS_CLAIMING = CHANGED.format(
    change="from jobs.execution import machine; machine.Machine.may_claim = lambda self: True"
)
LEASES = {"LEASE_SECONDS": "3", "HEARTBEAT_SECONDS": "1"}


def test_a_job_that_met_a_full_disk_is_returned_and_not_lost(minisim: Build, tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    with (
        small_disk(tmp_path / "disk", kib=64 << 10) as disk,
        (tmp_path / "log").open("wb") as log,
        worker(disk, "-c", KEEPS_CLAIMING, log=log, **LEASES) as process,
    ):
        wait_until_alive(process)
        filler = fill(disk)
        job = make_job(text=TEXT)
        announcements.announce(job)
        wait_until(lambda: "returned to the queue" in (tmp_path / "log").read_text(), seconds=60)
        filler.unlink()
        announcements.wake_one(Priority.STANDARD)
        wait_until(lambda: Job.objects.filter(pk=job.pk, status=Status.COMPLETED).exists(), seconds=60)
    lines = (tmp_path / "log").read_text().splitlines()
    assert len([line for line in lines if line.endswith(NAMED)]) == 1
    job = Job.objects.get()
    assert job.attempt >= 2
    assert not JobEvent.objects.filter(job=job, cause=ReturnCause.LOST).exists()


def test_a_worker_with_a_full_disk_claims_nothing_until_it_has_space(minisim: Build, tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    with small_disk(tmp_path / "disk", kib=64 << 10) as disk, worker(disk, log=None, **LEASES) as process:
        name = wait_until_alive(process)
        filler = fill(disk)
        jobs = [make_job(text=TEXT) for _ in range(5)]
        announcements.wake(Priority.STANDARD, slots=5)
        wait_until(lambda: problems() == {name: DISK_FULL}, seconds=60)
        assert (name, 0) in [(each.name, each.slots) for each in worker_heartbeats.simulation_workers()]
        time.sleep(5)
        assert not Job.objects.exclude(status__in=["pending", "queued"]).exists()
        filler.unlink()
        announcements.wake(Priority.STANDARD, slots=5)
        wait_until(lambda: Job.objects.filter(status=Status.COMPLETED).count() == len(jobs), seconds=60)
        wait_until(lambda: problems() == {}, seconds=60)
    assert set(Job.objects.values_list("attempt", flat=True)) == {1}


@pytest.mark.parametrize("fault", ["read-only disk", "sandbox"])
def test_a_worker_on_a_broken_machine_ends_no_job(minisim: Build, tmp_path: Path, fault: str) -> None:
    tmp_path.chmod(0o711)
    programs = tmp_path / "bin"
    programs.mkdir(mode=0o755)
    program = shutil.copy2(shutil.which("bwrap") or pytest.skip("needs bubblewrap"), programs / "bwrap")
    path = f"{programs}:{os.environ['PATH']}"
    with (
        small_disk(tmp_path / "disk", kib=64 << 10) as disk,
        worker(disk, log=None, PATH=path, **LEASES) as process,
    ):
        name = wait_until_alive(process)
        with broken(fault, disk=disk, program=Path(program)):
            jobs = [make_job(text=TEXT) for _ in range(4)]
            announcements.wake(Priority.STANDARD, slots=4)
            wait_until(lambda: name in problems(), seconds=60)
            assert not Job.objects.filter(status="failed").exists()
        wait_until(lambda: problems() == {}, seconds=100)
        announcements.wake(Priority.STANDARD, slots=4)
        wait_until(lambda: Job.objects.filter(status=Status.COMPLETED).count() == len(jobs), seconds=60)
    assert not JobEvent.objects.filter(cause=ReturnCause.LOST).exists()


@contextmanager
def broken(fault: str, *, disk: Path, program: Path) -> Iterator[None]:
    """Make a disk read-only, or remove the program that builds sandboxes, within the block."""
    with ExitStack() as mended:
        if fault == "sandbox":
            mended.callback(program.with_name("aside").rename, program)
            program.rename(program.with_name("aside"))
        else:
            subprocess.run(["mount", "--bind", str(disk), str(disk)], check=True)  # noqa: S607 - the system's program
            mended.callback(subprocess.run, ["umount", "--lazy", str(disk)], check=True)
            subprocess.run(["mount", "-o", "remount,bind,ro", str(disk)], check=True)  # noqa: S607
        yield


def test_a_disk_that_fills_during_a_run_ends_no_job(minisim: Build, tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir(mode=0o755)
    with small_disk(tmp_path / "disk", kib=64 << 10) as disk:
        # As with a bucket, results can be stored although the machine's disk is full.
        (disk / "artifacts").symlink_to(artifacts)
        with worker(disk, log=None, **LEASES) as process:
            name = wait_until_alive(process)
            job = make_job(text=TEXT.replace("=5", "=30000"))
            announcements.wake_one(Priority.STANDARD)
            wait_until(lambda: Job.objects.filter(status=Status.RUNNING).exists(), seconds=60)
            filler = fill(disk)
            wait_until(lambda: problems() == {name: DISK_FULL}, seconds=100)
            job.refresh_from_db()
            assert (job.status, job.credits_consumed) == ("queued", None)
            filler.unlink()
            wait_until(lambda: problems() == {}, seconds=60)
            announcements.wake_one(Priority.STANDARD)
            wait_until(lambda: Job.objects.filter(status=Status.COMPLETED).exists(), seconds=100)


def problems() -> dict[str, str]:
    return worker_heartbeats.problems_of(worker_heartbeats.simulation_workers())


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (MachineFault(), True),
        (RunLost(), True),
        (NotStored(), True),
        (DatabaseError(), False),
        (LeaseLost(1), False),
        (ValueError(), False),
    ],
    ids=repr,
)
def test_only_failures_of_the_machine_are_counted(error: Exception, *, counts: bool) -> None:
    tested = Machine()
    with pytest.raises(type(error)), tested.counts_failures():
        raise error
    assert (tested.pause_seconds > 0) is counts
    with tested.counts_failures():
        pass
    assert (tested.pause_seconds > 0) is counts, "a block without a simulator proves nothing"
    tested.record_success()
    assert tested.pause_seconds == 0


def test_a_machine_that_fails_twice_is_tested_before_each_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> list[str]:
        raise SandboxUnavailable("bubblewrap is gone")

    tested = Machine()
    monkeypatch.setattr(runner, "probe_sandbox", refuse)
    pauses = []
    for _ in range(8):
        with suppress(RunLost), tested.counts_failures():
            raise RunLost
        pauses.append(tested.pause_seconds)
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert not tested.may_claim()
    assert tested.problem == "bubblewrap is gone"
    tested.record_success()
    assert tested.may_claim()
    assert (tested.problem, tested.pause_seconds) == ("", 0.0)
