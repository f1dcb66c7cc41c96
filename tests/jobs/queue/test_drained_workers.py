"""Workers of a drained machine and of a paused lane."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from clients.audit import COMMAND_LINE
from jobs.enums import Priority
from jobs.models import Job, JobEvent
from jobs.queue import announcements, closures, sweep
from simservice import worker_heartbeats
from tests.factories import make_job
from tests.jobs.simulation_workers import status_of, wait_until_alive, worker
from tests.jobs.simulators import LEAVE_REPORT, RUN_UNTIL_INTERRUPTED, make_stand_in
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120), pytest.mark.django_db(transaction=True)]
HOST = socket.gethostname()


def has_no_slots() -> bool:
    """Return whether no live worker claims jobs, as the workers of a drained machine report."""
    return worker_heartbeats.total_slots(worker_heartbeats.simulation_workers()) == 0


def swept_until(condition: Callable[[], object]) -> None:
    """Wait for a condition while sweeps publish the state, as those of a `control` process."""

    def is_met() -> bool:
        sweep.sweep()
        return bool(condition())

    wait_until(is_met, seconds=30)


def test_a_drained_worker_returns_its_job_and_keeps_running(open_directory: Path) -> None:
    make_stand_in(open_directory, RUN_UNTIL_INTERRUPTED)
    job = make_job()
    with worker(open_directory, STOP_SECONDS="1") as process:
        name = wait_until_alive(process)
        wait_until(lambda: status_of(job) == "running")
        closures.begin(host=HOST, by=COMMAND_LINE)
        swept_until(lambda: status_of(job) == "queued")
        event = JobEvent.objects.filter(job=job, to_status="queued").latest("id")
        assert (event.reason, event.cause) == ("an operator drained the machine", "returned")
        # It reports its drain with the next heartbeat.
        wait_until(has_no_slots)
        (alive,) = worker_heartbeats.simulation_workers()
        assert worker_heartbeats.problems_of([alive]) == {name: "an operator drained this machine"}
        make_stand_in(open_directory, LEAVE_REPORT)
        closures.end(host=HOST, by=COMMAND_LINE)
        swept_until(lambda: status_of(job) == "completed")
        assert process.poll() is None


def test_a_job_that_ends_in_time_outlives_a_drain(open_directory: Path) -> None:
    signal = open_directory / "end"
    wait = f"while not os.path.exists({str(signal)!r}): time.sleep(0.1)"
    make_stand_in(open_directory, f"print('running', flush=True)\n{wait}\n{LEAVE_REPORT}")
    job = make_job()
    with worker(open_directory, STOP_SECONDS="60") as process:
        wait_until_alive(process)
        wait_until(lambda: status_of(job) == "running")
        closures.begin(host=HOST, by=COMMAND_LINE)
        later = make_job(job.client)
        announcements.announce(later)
        swept_until(has_no_slots)
        assert status_of(job) == "running"
        signal.touch()
        swept_until(lambda: status_of(job) == "completed")
        assert (status_of(later), Job.objects.get(pk=job.pk).attempt) == ("queued", 1)


def test_a_worker_leaves_the_jobs_of_a_paused_lane(open_directory: Path) -> None:
    make_stand_in(open_directory, LEAVE_REPORT)
    closures.begin(lane=Priority.HIGH, by=COMMAND_LINE)
    paused = make_job(priority=Priority.HIGH)
    other = make_job(paused.client, priority=Priority.BACKGROUND)
    announcements.announce(paused)
    announcements.announce(other)
    with worker(open_directory) as process:
        wait_until_alive(process)
        swept_until(lambda: status_of(other) == "completed")
        assert status_of(paused) == "queued"
        closures.end(lane=Priority.HIGH, by=COMMAND_LINE)
        swept_until(lambda: status_of(paused) == "completed")
