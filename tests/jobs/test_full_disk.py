"""A simulation worker on a full disk: its log says so, and its jobs are retried."""

from pathlib import Path

import pytest

from jobs.enums import Status
from jobs.models import Build, Job
from jobs.queueing import announcements
from jobs.queueing.sweep import recover_expired_leases
from tests.factories import make_job
from tests.jobs.simulation_workers import wait_until_alive, worker
from tests.jobs.simulators import wait_until
from tests.small_disk import fill, small_disk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.timeout(200)]
NAMED = "A disk of this machine is full. Free space on the disks of DATA_DIR and TMPDIR."
LEASES = {"LEASE_SECONDS": "3", "HEARTBEAT_SECONDS": "1"}


def test_a_job_that_met_a_full_disk_is_retried(minisim: Build, tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    with (
        small_disk(tmp_path / "disk", kib=1024) as disk,
        (tmp_path / "log").open("wb") as log,
        worker(disk, log=log, **LEASES) as process,
    ):
        wait_until_alive(process)
        filler = fill(disk)
        job = make_job(text='mage="A"\nlevel=80\niterations=5\n')
        given_up = "is given up: a disk of this machine is full"
        announcements.announce(job)
        wait_until(lambda: given_up in (tmp_path / "log").read_text(), seconds=60)
        filler.unlink()
        wait_until(lambda: recover_expired_leases() > 0)
        announcements.send_hint()
        wait_until(lambda: Job.objects.filter(pk=job.pk, status=Status.COMPLETED, attempt=2).exists(), seconds=60)
    lines = (tmp_path / "log").read_text().splitlines()
    assert len([line for line in lines if line.endswith(NAMED)]) == 1
