"""Jobs on a branch without any build: they fail at once and cost nothing."""

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from billing.models import Hold
from jobs import tasks
from jobs.models import Build, Job
from jobs.queue import sweep
from tests.factories import BuildFactory, make_job, make_running_job

pytestmark = pytest.mark.django_db


def end_of(job: Job) -> tuple[str, str | None, int | None]:
    job.refresh_from_db()
    return job.status, job.error_code, job.credits_consumed


def test_a_waiting_job_without_a_build_ends_at_once() -> None:
    """No worker has to claim it."""
    job = make_job()
    tasks.sweep()
    assert end_of(job) == ("failed", "build_unavailable", 0)
    assert Hold.objects.get(pk=job.pk).spent == 0
    assert "Nothing is billed" in str(job.status_reason)


def test_withdrawn_builds_do_not_count() -> None:
    BuildFactory.create(withdrawn_at=timezone.now())
    BuildFactory.create(git_branch="another")
    job = make_job()
    tasks.sweep()
    assert end_of(job)[1] == "build_unavailable"


def test_a_build_that_only_this_machine_lacks_counts() -> None:
    BuildFactory.create(executable="/nowhere/simc")
    job = make_job()
    tasks.sweep()
    assert end_of(job)[0] == "pending"


def test_only_jobs_on_the_branch_without_a_build_end(settings: Settings) -> None:
    settings.GIT_BRANCHES = ["midnight", "empty"]
    BuildFactory.create(git_branch="midnight")
    hopeless, waiting = make_job(git_branch="empty"), make_job(git_branch="midnight")
    assert sweep.end_waits_without_build() == 1
    assert (end_of(hopeless)[0], end_of(waiting)[0]) == ("failed", "pending")


def test_a_claimed_job_is_left_to_its_worker() -> None:
    job = make_running_job()
    Build.objects.update(withdrawn_at=timezone.now())
    assert sweep.end_waits_without_build() == 0
    assert end_of(job)[0] == "running"


def test_while_each_branch_has_a_build_one_query_is_made(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    BuildFactory.create()
    make_job()
    with django_assert_num_queries(1):
        assert sweep.end_waits_without_build() == 0
