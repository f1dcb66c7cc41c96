"""The costs of the steps of a job: statements, round trips, Redis commands, processes and bytes of log."""

import logging
import os
import subprocess
from collections.abc import Callable
from itertools import count

import pytest

from clients.models import ApiKey
from jobs.enums import Status
from jobs.execution import attempt
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job
from simservice.redis.client import redis
from tests.conftest import Api
from tests.costs import Costs, counted
from tests.factories import BuildFactory, make_job
from tests.jobs.api.bodies import BODY

pytestmark = pytest.mark.django_db(transaction=True)

DONE = Outcome(status=Status.COMPLETED, summary={"metric": "dps"}, sim_duration_ms=1500, credits_consumed=64)


def costs_of(step: Callable[[Job], object], *jobs: Job) -> Costs:
    """Return the costs of a step for the last job. The others pay for the first use of connections and caches."""
    for job in jobs[:-1]:
        step(job)
    with counted() as costs:
        step(jobs[-1])
    return costs


def claimed() -> Job:
    """Return a new job that is claimed, and whose end sends a webhook event."""
    make_job(wants_webhook=True)
    job = job_moves.claim_job("w")
    assert job is not None
    return job


def started() -> Job:
    job = claimed()
    job_moves.start_run(job, build=BuildFactory.create())
    return job


def test_costs_of_a_submission(api: Api) -> None:
    """Statements: the API key, the idempotency key, the build, two locks and the job, and its mark as queued."""
    number = count()

    def submit(_: Job) -> None:
        response = api.post("jobs", BODY, headers={"idempotency-key": str(next(number))})
        assert response.status_code == 200

    expected = Costs(statements=7, round_trips=5, redis_commands=6)
    assert costs_of(submit, Job(), Job()) == expected


def test_costs_of_a_poll(api: Api, key: tuple[ApiKey, str]) -> None:
    """Statements: the API key and the job."""
    jobs = [make_job(key[0].client) for _ in range(2)]
    costs = costs_of(lambda job: api.get(f"jobs/{job.pk}/status"), *jobs)
    assert costs == Costs(statements=2, round_trips=2, redis_commands=2)


def test_costs_of_a_claim() -> None:
    jobs = [make_job() for _ in range(2)]
    assert costs_of(lambda _: job_moves.claim_job("w"), *jobs) == Costs(statements=1, round_trips=1)
    assert Job.objects.filter(status=Status.STARTING).count() == 2


def test_costs_of_a_start_and_of_a_renewal() -> None:
    build, jobs = BuildFactory.create(), [claimed(), claimed()]
    assert costs_of(lambda job: job_moves.start_run(job, build=build), *jobs) == Costs(statements=1, round_trips=1)
    assert costs_of(job_moves.renew_lease, *jobs) == Costs(statements=1, round_trips=1)


def test_costs_of_an_end_with_a_webhook_event() -> None:
    """Statements: two locks and the end.

    Redis commands: the last progress, the length of the webhook queue, and the message.
    """
    costs = costs_of(lambda job: attempt.conclude(job, DONE, []), started(), started())
    assert costs == Costs(statements=3, round_trips=1, redis_commands=3, log_bytes=96)
    assert redis().llen("webhooks") == 2


def test_all_costs_are_counted() -> None:
    redis().ping()
    with counted() as costs:
        Job.objects.exists()
        with redis().pipeline(transaction=False) as pipeline:
            pipeline.set("*1", "*2")
            pipeline.get("*1")
            pipeline.execute()
        redis().ping()
        subprocess.run(["/bin/true"], check=True)
        if (pid := os.fork()) == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        logging.getLogger("a").info("ü")
    line = len("2026-11-20 08:10:00,123 INFO a ü\n".encode())
    assert costs == Costs(statements=1, round_trips=1, redis_commands=3, processes=2, log_bytes=line)
