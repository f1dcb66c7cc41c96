"""The text filter of the job list reads only the account's own jobs, even if other accounts have more."""

from collections.abc import Iterator
from functools import partial

import pytest
from django.db import connection

from clients.accounts import default_client
from dashboard.jobs import job_list
from jobs.models import Job
from tests.factories import make_job, make_member
from tests.jobs.plans import copy_job, plans_of, reindex_jobs

# Committed and truncated, because rows that are rolled back would change the plans of later tests.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
OWN_JOBS, OTHER_JOBS = 6_000, 14_000


@pytest.fixture
def job() -> Iterator[Job]:
    """The oldest job of an account that has three in ten of all jobs."""
    own, other = (make_job(default_client(make_member().account)) for _ in range(2))
    copy_job(other.pk, OTHER_JOBS - 1)
    copy_job(own.pk, OWN_JOBS - 1)
    reindex_jobs()
    yield own
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobs_job CASCADE")
        cursor.execute("ANALYZE jobs_job")


@pytest.mark.parametrize("text", ["nowhere", "e"])
def test_a_search_reads_only_jobs_of_its_account(job: Job, text: str) -> None:
    rows = job_list.filtered(job.account, job_list.NO_FILTERS)
    plans = plans_of(partial(job_list._search, rows, text), table="jobs_job")
    assert [(plan.indexes, plan.scanned) for plan in plans] == [({"job_by_account"}, set())]
