"""The thread that renews the lease of a claimed job."""

import threading
import time

import pytest
from django.db import InterfaceError, OperationalError, connection
from django.utils import timezone
from pytest_django import Settings

from jobs.enums import Renewal
from jobs.execution.lease import Lease, LeaseLost
from jobs.lifecycle import job_moves
from jobs.models import Job
from tests.factories import make_running_job
from tests.statements import traffic

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _fast(settings: Settings) -> None:
    settings.HEARTBEAT_SECONDS = 0.05


def has_lease(job: Job) -> bool:
    """Return whether a job's lease is valid."""
    return Job.objects.filter(pk=job.pk, lease_expires_at__gt=timezone.now()).exists()


def test_a_lease_is_renewed_while_work_continues() -> None:
    job = make_running_job()
    Job.objects.filter(pk=job.pk).update(lease_expires_at=timezone.now())
    with Lease(job) as lease:
        assert not lease.lost.wait(0.5)
    assert has_lease(job)


def test_a_lost_job_is_noticed() -> None:
    job = make_running_job()
    with Lease(job) as lease:
        job_moves.requeue(Job.objects.get(pk=job.pk), reason="taken")
        assert lease.lost.wait(5)
        with pytest.raises(LeaseLost):
            lease.require()


def test_a_renewal_notices_a_cancellation_in_one_statement() -> None:
    job = make_running_job()
    with traffic() as recorded:
        assert job_moves.renew_lease(job) is Renewal.DONE
    assert recorded.round_trips == len(recorded.statements) == 1
    job_moves.request_cancel(job)
    with Lease(job) as lease:
        assert lease.cancelled.wait(5)


def test_a_short_database_outage_keeps_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_running_job()
    renew, failures = job_moves.renew_lease, iter([InterfaceError(), OperationalError()])

    def sometimes(job: Job) -> Renewal:
        for error in failures:
            raise error
        return renew(job)

    monkeypatch.setattr(job_moves, "renew_lease", sometimes)
    Job.objects.filter(pk=job.pk).update(lease_expires_at=timezone.now())
    with Lease(job) as lease:
        assert not lease.lost.wait(0.5)
    assert has_lease(job)


def test_a_dead_connection_is_replaced() -> None:
    job = make_running_job()
    with Lease(job) as lease:
        time.sleep(0.2)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        Job.objects.filter(pk=job.pk).update(lease_expires_at=timezone.now())
        assert not lease.lost.wait(0.5)
    assert has_lease(job)


def test_a_lease_that_cannot_be_renewed_expires(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    settings.LEASE_SECONDS = 0.3

    def never(job: Job) -> Renewal:
        raise OperationalError

    monkeypatch.setattr(job_moves, "renew_lease", never)
    with Lease(make_running_job()) as lease:
        assert not lease.lost.wait(0.2)
        assert lease.lost.wait(5)


def test_a_write_is_retried_until_it_succeeds() -> None:
    failures = iter([OperationalError(), InterfaceError()])

    def write() -> str:
        for error in failures:
            raise error
        return "written"

    with Lease(make_running_job()) as lease:
        assert lease.retry(write) == "written"


def test_a_write_is_abandoned_when_the_lease_expires() -> None:
    def write() -> None:
        raise OperationalError

    with Lease(make_running_job()) as lease:
        lease.lost.set()
        with pytest.raises(LeaseLost):
            lease.retry(write)


def test_no_thread_outlives_the_block() -> None:
    job = make_running_job()
    with Lease(job):
        pass
    assert f"lease-{job.pk}" not in {thread.name for thread in threading.enumerate()}
