"""A full or read-only disk at each step of an attempt: the job is returned, and its next attempt is right."""

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.db.models import F
from pytest_django import Settings

from billing import ledger
from jobs.artifacts import artifact_files, retention
from jobs.enums import ReturnCause
from jobs.execution import attempt, directories, runner, shard_files, shard_results
from jobs.execution.shard_results import ShardResults
from jobs.models import Job, JobEvent
from jobs.operations import hold_audit
from simservice.telemetry import known_errors
from tests.jobs.shards.sharded_runs import RESULTS, make_simulator, results_of, submit
from tests.jobs.simulators import again
from tests.small_disk import fill, small_disk

pytestmark = pytest.mark.django_db(transaction=True)

# Where each step begins: its module and function
STEPS: dict[str, tuple[ModuleType | type, str]] = {
    "lock of the private directory": (directories, "_locked_name"),
    "private directory": (runner, "prepare"),
    "store shard": (shard_files, "store"),
    "fetch shard": (shard_files, "fetch"),
    "merge logs": (ShardResults, "_merged_log"),
    "merge reports": (ShardResults, "_merged_report"),
    "store artifact": (artifact_files, "store_all"),
}
HAZARDS = {
    "full": ("a disk of this machine is full", "A disk of this machine is full."),
    "read-only": ("read-only file system", "A disk of this machine is read-only."),
}


@pytest.fixture
def disk(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small disk with the folders of a worker: `DATA_DIR`, with the artifacts, and `TMPDIR`."""
    monkeypatch.setattr(artifact_files, "SAVE_WAITS_SECONDS", (0.05,))
    monkeypatch.setattr(shard_results, "MAX_OUTAGE_SECONDS", 1.0)
    monkeypatch.setattr(attempt, "LOST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(known_errors, "REPEAT_SECONDS", 0.0)
    tmp_path.chmod(0o711)
    with small_disk(tmp_path / "disk", kib=64 << 10) as folder:
        (folder / "tmp").mkdir()
        settings.DATA_DIR = folder
        options = {"location": str(folder / "artifacts")}
        settings.STORAGES = settings.STORAGES | {"default": settings.STORAGES["default"] | {"OPTIONS": options}}
        monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))
        yield folder


def break_disk(disk: Path, hazard: str) -> Callable[[], object]:
    """Fill a disk or make it read-only. Return a function that mends it."""
    if hazard == "full":
        filler = fill(disk)
        return lambda: filler.unlink(missing_ok=True)
    subprocess.run(["mount", "--bind", str(disk), str(disk)], check=True)  # noqa: S607 - the system's program
    subprocess.run(["mount", "-o", "remount,bind,ro", str(disk)], check=True)  # noqa: S607
    return lambda: subprocess.run(["umount", "--lazy", str(disk)], check=True)  # noqa: S607


def at_step(monkeypatch: pytest.MonkeyPatch, step: str, action: Callable[[], object]) -> None:
    """Call an action once, before a step begins."""
    owner, name = STEPS[step]
    function, calls = getattr(owner, name), list[str]()

    def reached(*args: Any, **named: Any) -> Any:
        if not calls:
            calls.append(step)
            action()
        return function(*args, **named)

    monkeypatch.setattr(owner, name, reached)


@pytest.mark.parametrize("hazard", HAZARDS)
@pytest.mark.parametrize("step", STEPS)
def test_a_broken_disk_returns_the_job(
    disk: Path, monkeypatch: pytest.MonkeyPatch, step: str, hazard: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_simulator(disk.parent)
    mend: list[Callable[[], object]] = []
    at_step(monkeypatch, step, lambda: mend.append(break_disk(disk, hazard)))
    job = submit()
    try:
        attempt.execute(job)
    finally:
        for action in mend:
            action()
    returned = Job.objects.get(pk=job.pk)
    reason, line = HAZARDS[hazard]
    event = JobEvent.objects.filter(job=job).order_by("id").last()
    assert returned.status == "queued", caplog.text
    assert event is not None
    assert event.reason.endswith(reason)
    assert line in caplog.text
    assert_right(again())


def assert_right(job: Job) -> None:
    """Assert that a returned job has the right results, is billed once, and leaves nothing after its retention."""
    assert (job.status, job.attempt, job.status_reason) == ("completed", 2, None)
    assert not JobEvent.objects.filter(job=job, cause=ReturnCause.LOST).exists()
    assert results_of(job) == RESULTS
    assert list(ledger.verify()) == []
    assert list(hold_audit.discrepancies()) == []
    Job.objects.update(created_at=F("created_at") - timedelta(days=365))
    assert retention.clear_expired() == 1
    assert artifact_files._files_of(artifact_files.folder_of(job.pk), [job.pk]) == []
    directories.remove_leftovers()
    assert list(directories.runs().glob("*")) == []
