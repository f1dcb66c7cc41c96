"""Progress of ended jobs, and the queue object of starting jobs."""

from pathlib import Path

import pytest
from django.db import connection

from clients.models import ApiKey
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.live.progress import Progress, Publisher
from jobs.models import Job
from jobs.operations import operator_actions
from jobs.queue import sweep
from simservice.redis.client import redis
from tests.conftest import Api
from tests.factories import make_job, make_running_job, start_attempt
from tests.jobs.simulators import RUN_UNTIL_INTERRUPTED, make_stand_in, run, run_with_action

pytestmark = pytest.mark.django_db(transaction=True)

PRINT_PROGRESS = "print('Generating Baseline: 1/1 [====>....] 430/1000 99.0 1sec', flush=True)\n"


def percent_of(api: Api, job: Job) -> float:
    """Empty Redis, then return the percent in a job's status."""
    redis().flushdb()
    progress = api.get(f"jobs/{job.pk}/status").json()["progress"]
    assert progress["stage"] is None
    return float(progress["percent"])


def test_a_cancelled_job_keeps_its_percent(tmp_path: Path, api: Api, key: tuple[ApiKey, str]) -> None:
    make_stand_in(tmp_path, PRINT_PROGRESS + RUN_UNTIL_INTERRUPTED)
    job = run_with_action(job_moves.request_cancel, client=key[0].client)
    assert (job.status, percent_of(api, job)) == ("cancelled", 43)


def test_a_job_stopped_at_its_cap_keeps_its_percent(tmp_path: Path, api: Api, key: tuple[ApiKey, str]) -> None:
    make_stand_in(tmp_path, PRINT_PROGRESS + RUN_UNTIL_INTERRUPTED)
    job = run(key[0].client, ceiling_credits=32, ceiling_runtime_seconds=1)
    assert (job.status, percent_of(api, job)) == ("timed_out", 43)


@pytest.mark.parametrize("last", ["1000/1000 99.0 4.300", "1000/1000 99.0 Mean=5 Error=0.1% 4.300"])
def test_the_full_bar_after_a_stop_is_not_progress(
    last: str, tmp_path: Path, api: Api, key: tuple[ApiKey, str]
) -> None:
    last_bar = f"print('Generating Baseline: 1/1 [========>] {last}', flush=True)"
    body = RUN_UNTIL_INTERRUPTED.replace("    sys.exit(0)", f"    {last_bar}\n    sys.exit(0)")
    make_stand_in(tmp_path, PRINT_PROGRESS + body)
    job = run(key[0].client, ceiling_credits=32, ceiling_runtime_seconds=1)
    assert (job.status, percent_of(api, job)) == ("timed_out", 43)


def test_a_failed_job_keeps_its_percent(tmp_path: Path, api: Api, key: tuple[ApiKey, str]) -> None:
    make_stand_in(tmp_path, f"{PRINT_PROGRESS}sys.exit(1)")
    job = run(key[0].client)
    assert (job.status, percent_of(api, job)) == ("failed", 43)


@pytest.mark.parametrize("ending", ["operators", "sweep"])
def test_a_lost_job_keeps_its_percent(ending: str, api: Api, key: tuple[ApiKey, str]) -> None:
    job = make_running_job(client=key[0].client)
    Publisher(job).publish(Progress(percent=61.5, stage=None))
    end = operator_actions.RELEASED if ending == "operators" else sweep.interrupted(job)
    assert job_moves.finish(job, end)
    assert percent_of(api, job) == 61.5


def test_a_job_back_in_the_queue_has_no_percent(api: Api, key: tuple[ApiKey, str]) -> None:
    job = make_running_job(client=key[0].client)
    Publisher(job).publish(Progress(percent=61.5, stage=None))
    assert job_moves.requeue(job, reason="lost")
    assert job_moves.finish(job, job_moves.CANCELLED)
    assert percent_of(api, job) == 0


def test_a_lost_cancelled_job_reads_redis_outside_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_percent(_: Job) -> float:
        assert not connection.in_atomic_block
        return 61.5

    job = make_running_job()
    assert job_moves.request_cancel(job)
    monkeypatch.setattr(job_moves, "last_percent", read_percent)
    assert job_moves.requeue(job, reason="lost")
    job.refresh_from_db()
    assert (job.status, job.percent) == ("cancelled", 61.5)


@pytest.mark.parametrize("status", [Status.CANCELLED, Status.FAILED])
def test_a_job_that_never_ran_has_no_percent(status: Status, api: Api, key: tuple[ApiKey, str]) -> None:
    job = make_job(key[0].client)
    assert job_moves.finish(job, Outcome(status=status, error_code="user_cancelled"))
    assert percent_of(api, job) == 0


def test_a_completed_job_is_at_100_percent(api: Api, key: tuple[ApiKey, str]) -> None:
    job = make_running_job(client=key[0].client)
    assert job_moves.finish(job, Outcome(status=Status.COMPLETED, summary={}, percent=99.9))
    assert percent_of(api, job) == 100


def test_a_starting_job_still_has_a_queue_object(api: Api, key: tuple[ApiKey, str]) -> None:
    job = make_job(key[0].client)
    assert start_attempt(job, worker="worker-1")
    queue = api.get(f"jobs/{job.pk}/status").json()["queue"]
    assert queue["estimatedStartSeconds"] == 0
    assert queue["estimatedStartUpdatedAt"] is not None


@pytest.mark.parametrize("is_over", [False, True])
def test_a_running_or_ended_job_has_no_queue_object(is_over: bool, api: Api, key: tuple[ApiKey, str]) -> None:  # noqa: FBT001
    job = make_running_job(client=key[0].client)
    if is_over:
        assert job_moves.finish(job, Outcome(status=Status.CANCELLED, error_code="user_cancelled"))
    assert api.get(f"jobs/{job.pk}/status").json()["queue"] is None
