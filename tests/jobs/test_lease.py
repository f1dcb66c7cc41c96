"""The thread that keeps a claimed job."""

import threading

import pytest
from django.utils import timezone

from jobs import lifecycle
from jobs.lease import Lease, LeaseLost
from jobs.models import Job
from tests.factories import make_running_job

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _fast(settings: object) -> None:
    settings.HEARTBEAT_SECONDS = 0.05  # type: ignore[attr-defined]


def test_a_lease_is_renewed_while_the_work_goes_on() -> None:
    job = make_running_job()
    Job.objects.filter(pk=job.pk).update(lease_expires_at=timezone.now())
    with Lease(job) as lease:
        assert not lease.lost.wait(0.5)
    renewed = Job.objects.get(pk=job.pk).lease_expires_at
    assert renewed is not None
    assert renewed > timezone.now()


def test_the_loss_of_the_job_is_noticed() -> None:
    job = make_running_job()
    with Lease(job) as lease:
        lifecycle.hand_back(Job.objects.get(pk=job.pk), reason="taken")
        assert lease.lost.wait(5)
        with pytest.raises(LeaseLost):
            lease.require()


def test_no_thread_outlives_the_block() -> None:
    job = make_running_job()
    with Lease(job):
        pass
    assert f"lease-{job.pk}" not in {thread.name for thread in threading.enumerate()}
