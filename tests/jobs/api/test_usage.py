"""`GET usage` (docs/reference/api.md#usage)."""

from datetime import UTC, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clients.models import ApiKey
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import DailyUsage, Job
from tests.concurrency import at_once
from tests.conftest import Api
from tests.factories import make_account, make_client, make_job, make_running_job
from tests.jobs.api.bodies import only_in

COMPLETED: dict[str, Any] = {"status": Status.COMPLETED, "summary": {}}


def usage(api: Api) -> Any:
    return api.get("usage").json()


def complete(job: Job, *, sim_duration_ms: int, billed: int) -> None:
    outcome = Outcome(**COMPLETED, sim_duration_ms=sim_duration_ms, credits_consumed=billed)
    assert job_moves.finish(job, outcome)


def test_plan_and_limits_are_the_same(api: Api) -> None:
    body = usage(api)
    assert set(body) == {"period", "snapshot", "plan", "limits"}
    assert body["plan"] == body["limits"]
    assert body["plan"] | {"defaultCreditsPerJob": 0, "defaultRuntimeSeconds": 0} == {
        "maxActiveJobs": 200,
        "maxCreditsPerJob": 57_600,
        "defaultCreditsPerJob": 0,
        "maxRuntimeSeconds": 1800,
        "defaultRuntimeSeconds": 0,
        "maxQueueSeconds": 86_400,
        "defaultQueueSeconds": 1800,
        "creditsPerSecond": 32,
        "vcpuPerJob": 2,
        "maxParallelSlots": 1,
        "maxSimcVariants": 10_000,
        "pool": "standard",
        "priorityFeeCredits": {"high": 320},
    }


@only_in("R")
def test_a_job_has_a_default_time_limit(api: Api) -> None:
    plan = usage(api)["plan"]
    assert (plan["defaultRuntimeSeconds"], plan["defaultCreditsPerJob"]) == (300, 9600)


@only_in("C")
def test_a_job_has_no_default_credit_limit(api: Api) -> None:
    plan = usage(api)["plan"]
    assert (plan["defaultRuntimeSeconds"], plan["defaultCreditsPerJob"]) == (None, None)


def test_unfinished_jobs_are_counted_by_status(api: Api, key: tuple[ApiKey, str]) -> None:
    client = key[0].client
    make_job(client)
    make_running_job(client=client)
    make_running_job(client=client)
    complete(make_running_job(client=client), sim_duration_ms=1, billed=32)
    make_job()
    assert usage(api)["snapshot"] == {"activeJobs": 3, "queuedJobs": 1, "runningJobs": 2}


def test_jobs_of_this_month_are_counted(api: Api, key: tuple[ApiKey, str]) -> None:
    client = key[0].client
    complete(make_running_job(client=client), sim_duration_ms=1500, billed=64)
    complete(make_running_job(client=client), sim_duration_ms=2500, billed=96)
    never_ran = Outcome(status=Status.FAILED, error_code="queue_timeout")
    assert job_moves.finish(make_job(client), never_ran)
    period = usage(api)["period"]
    assert (period["simsRun"], period["avgRuntimeSeconds"]) == (2, 2.0)
    now = timezone.now().astimezone(UTC)
    assert period["start"] == f"{now:%Y-%m}-01T00:00:00.000Z"
    assert period["end"] > period["start"]


def test_other_months_and_accounts_are_not_counted(api: Api, key: tuple[ApiKey, str]) -> None:
    complete(make_running_job(client=key[0].client), sim_duration_ms=1500, billed=64)
    DailyUsage.objects.update(day=timezone.now().astimezone(UTC).date().replace(day=1) - timedelta(days=1))
    complete(make_running_job(), sim_duration_ms=1500, billed=64)
    period = usage(api)["period"]
    assert (period["simsRun"], period["avgRuntimeSeconds"]) == (0, None)


def test_reads_are_counted_against_their_limit(api: Api, key: tuple[ApiKey, str]) -> None:
    api.get("builds")
    period = usage(api)["period"]
    assert (period["readsUsed"], period["readsLimit"]) == (2, 6000)
    assert period["readsCapResetAt"].endswith("Z")


def test_usage_takes_four_queries(api: Api) -> None:
    usage(api)
    with CaptureQueriesContext(connection) as queries:
        usage(api)
    assert len(queries) == 4


def test_usage_is_counted_by_day_client_and_build(key: tuple[ApiKey, str]) -> None:
    first, second = (
        make_running_job(client=key[0].client),
        make_running_job(client=make_client(key[0].client.account)),
    )
    for job in (first, second):
        complete(job, sim_duration_ms=1000, billed=32)
    rows = DailyUsage.objects.order_by("client_id").values_list("client_id", "build_id", "jobs", "runs", "credits")
    assert list(rows) == [(job.client_id, job.build_id, 1, 1, 32) for job in (first, second)]


@pytest.mark.django_db(transaction=True)
def test_jobs_that_end_at_the_same_time_are_all_counted() -> None:
    account = make_account()
    client = account.clients.get()
    waiting = [make_job(client) for _ in range(12)]

    def end_job() -> None:
        job_moves.finish(waiting.pop(), Outcome(status=Status.FAILED, error_code="queue_timeout"))

    at_once(12, end_job)
    assert list(DailyUsage.objects.filter(build=None).values_list("jobs", "runs")) == [(12, 0)]
