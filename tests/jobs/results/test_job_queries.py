"""Jobs read by handwritten SQL equal those read by the ORM."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, models
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from billing.models import Account
from jobs.errors import NotFound
from jobs.models import Build, Job
from jobs.results import listing, queries
from jobs.results.listing import LISTED
from tests.factories import BuildFactory, make_account, make_client, make_job, make_running_job

pytestmark = pytest.mark.django_db
METADATA = {"b": "2", "a": "ü'\\\"%s", "emoji": "\U0001f642"}

FAILED = {
    "status": "failed",
    "error_code": "internal",
    "status_reason": "Reason %s",
    "completed_at": Now(),
    "credits_consumed": 0,
}
COMPLETED = {
    "status": "completed",
    "summary": {"metric": "dps", "mainActor": {"mean": 1.5}},
    "completed_at": Now(),
    "credits_consumed": 3,
    "sim_duration_ms": 1,
}


def values_of(instance: models.Model) -> dict[str, Any]:
    """Return the loaded fields of an instance."""
    deferred = instance.get_deferred_fields()
    names = [field.attname for field in instance._meta.concrete_fields]
    return {name: getattr(instance, name) for name in names if name not in deferred}


def make_varied_jobs(count: int) -> list[Job]:
    """Make jobs of one account with different values in every kind of field, some with a build."""
    client, build = make_client(make_account()), BuildFactory.create(ci={"total": 3, "failures": []})
    choose = random.Random(3)  # noqa: S311
    jobs = [make_job(client, metadata=METADATA if choose.random() < 0.5 else {}) for _ in range(count)]
    for job in jobs:
        Job.objects.filter(pk=job.pk).update(
            build=choose.choice([build, None]),
            priority=choose.randrange(3),
            started_at=choose.choice([None, timezone.now()]),
            max_credits=choose.choice([None, 5]),
            percent=choose.random() * 100,
            **choose.choice([{}, FAILED, COMPLETED]),
            missing_artifacts=choose.choice([[], [{"kind": "html_report", "stage": None}]]),
        )
    return jobs


@pytest.mark.parametrize("with_summary", [False, True])
def test_a_found_job_equals_that_of_the_orm(with_summary: bool) -> None:  # noqa: FBT001
    for made in make_varied_jobs(20):
        expected = Job.objects.select_related("build").get(pk=made.pk)
        with CaptureQueriesContext(connection) as captured:
            job, _ = queries.read_job(made.account, str(made.pk), with_summary=with_summary)
            build = job.build
        assert len(captured) == 1
        assert job.get_deferred_fields() == (set() if with_summary else {"summary"})
        assert values_of(job) == {
            name: value for name, value in values_of(expected).items() if name in values_of(job)
        }
        assert build == expected.build
        if build is not None:
            assert build.get_deferred_fields() == {"profiles", "includable"}
            assert values_of(build).items() <= values_of(Build.objects.get()).items()


def test_listed_jobs_equal_those_of_the_orm() -> None:
    jobs = make_varied_jobs(12)
    make_job()
    expected = Job.objects.filter(account=jobs[0].account).only(*LISTED).order_by("-id")
    with CaptureQueriesContext(connection) as captured:
        listed = listing.list_jobs(jobs[0].account, before=None, limit=7).jobs
    assert len(captured) == 1
    assert [values_of(job) for job in listed] == [values_of(job) for job in expected[:7]]
    rest = listing.list_jobs(jobs[0].account, before=listed[-1].pk, limit=7).jobs
    assert [job.pk for job in rest] == [job.pk for job in expected[7:]]


@pytest.mark.parametrize("text", ["", "1", "x" * 18, "²" * 18, "000000000000000000"])
def test_an_id_of_no_job_is_not_found(text: str) -> None:
    with pytest.raises(NotFound):
        queries.find_job(make_running_job().account, text)


@pytest.mark.parametrize("find", [queries.find_job, queries.poll_job])
def test_a_job_of_another_account_is_not_found(find: Callable[[Account, str], object]) -> None:
    job = make_job()
    assert find(job.account, str(job.pk))
    with pytest.raises(NotFound):
        find(make_account(), str(job.pk))
