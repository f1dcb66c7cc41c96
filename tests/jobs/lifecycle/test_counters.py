"""Metrics that are counted where the status of jobs changes."""

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs.enums import Priority, ReturnCause, Status
from jobs.execution import attempt, simulation_worker
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job
from jobs.operations.metrics import QueueCollector
from jobs.queue import announcements
from simservice.redis import shared_metrics
from simservice.telemetry.metrics import REGISTRY
from tests.conftest import Api
from tests.factories import make_job, make_running_job
from tests.jobs.api.bodies import BODY

pytestmark = pytest.mark.django_db(transaction=True)
DONE = Outcome(status=Status.COMPLETED, summary={})


def shared(name: str) -> dict[tuple[str, ...], float]:
    """Send what was counted, and return the values of a shared metric by its labels."""
    shared_metrics.flusher.flush()
    samples = [sample for family in QueueCollector().collect() for sample in family.samples]
    found = (each for each in samples if each.name == f"simservice_{name}")
    return {tuple(each.labels.values()): each.value for each in found if each.value or name.endswith("bucket")}


def test_ends_are_counted_by_lane_and_outcome() -> None:
    for _ in range(2):
        job_moves.finish(make_running_job(), DONE)
    job_moves.finish(make_job(priority=Priority.HIGH), job_moves.CANCELLED)
    assert shared("jobs_ended_total") == {("standard", "completed"): 2, ("high", "user_cancelled"): 1}


def test_an_end_that_another_process_recorded_is_not_counted_again() -> None:
    job = make_running_job()
    assert job_moves.finish(job, DONE)
    assert not job_moves.finish(job, DONE)
    assert shared("jobs_ended_total") == {("standard", "completed"): 1}


def test_run_seconds_are_those_since_the_first_simulator_started() -> None:
    job = make_running_job()
    Job.objects.filter(pk=job.pk).update(started_at=timezone.now() - timedelta(seconds=20))
    job_moves.finish(job, DONE)
    job_moves.finish(make_job(), job_moves.CANCELLED)
    counts = shared("job_run_seconds_bucket")
    assert (counts["standard", "10"], counts["standard", "30"], counts["standard", "+Inf"]) == (0, 1, 1)
    assert 20 <= shared("job_run_seconds_sum")["standard",] < 30


@pytest.fixture
def quick_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let attempts do nothing."""
    monkeypatch.setattr(attempt, "execute", lambda _: None)
    monkeypatch.setattr(announcements, "pass_on", lambda: None)


def test_waits_are_counted_at_the_first_claim(quick_attempts: None) -> None:
    job = make_job(created_at=timezone.now() - timedelta(seconds=40))
    simulation_worker.simulate()
    assert job_moves.requeue(Job.objects.get(pk=job.pk), reason="lost")
    simulation_worker.simulate()
    counts = shared("job_wait_seconds_bucket")
    assert (counts["standard", "30"], counts["standard", "60"], counts["standard", "+Inf"]) == (0, 1, 1)
    assert shared("attempts_lost_total") == {("standard",): 1}


def test_returned_attempts_are_not_counted_as_lost() -> None:
    job = make_running_job()
    assert job_moves.requeue(job, reason="the worker was shut down", cause=ReturnCause.RETURNED)
    assert shared("attempts_returned_total") == {("standard",): 1}
    assert shared("attempts_lost_total") == {}


def test_submissions_are_counted_by_lane(api: Api) -> None:
    def accepted() -> float:
        return REGISTRY.get_sample_value("simservice_jobs_submitted_total", {"lane": "standard"}) or 0

    before = accepted()
    assert api.post("jobs", BODY).status_code == 200
    assert api.post("jobs", {}).status_code == 400
    assert accepted() - before == 1


def test_unknown_fields_are_ignored() -> None:
    """During an upgrade, another version can count more."""
    shared_metrics.record({"jobs_ended|standard|completed": 1, "job_run_seconds|standard|99": 1, "new|x": 1})
    assert shared("jobs_ended_total") == {("standard", "completed"): 1}
    assert shared("job_run_seconds_count") == {}


def test_series_exist_before_anything_is_counted() -> None:
    """Prometheus would not notice the first job that fails."""
    names = [sample.labels for family in QueueCollector().collect() for sample in family.samples]
    assert {"lane": "high", "outcome": "internal"} in names
