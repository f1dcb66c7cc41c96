"""Lists of jobs read only the account's own jobs, even if other accounts have almost all jobs."""

from collections.abc import Iterator
from functools import partial

import pytest
from django.db import connection

from jobs import listing
from jobs.enums import Status
from jobs.listing import EPOCH, Filters
from jobs.models import Job
from tests.factories import make_account, make_client, make_job
from tests.jobs.plans import copy_job, plans_of, reindex_jobs

# Committed and truncated, because rows that are rolled back would change the plans of later tests.
pytestmark = pytest.mark.django_db(transaction=True)
LIMIT = 21
# At most two pages for each row
PAGES = 2 * LIMIT


@pytest.fixture
def jobs() -> Iterator[list[Job]]:
    """The oldest job of each of three accounts, which have 1, 3,000 and 20,000 jobs, oldest first."""
    made = []
    for count in (0, 3_000, 20_000):
        made.append(make_job(make_client(make_account())))
        if count:
            copy_job(made[-1].pk, count - 1)
    reindex_jobs()
    yield made
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobs_job CASCADE")
        cursor.execute("ANALYZE jobs_job")


@pytest.mark.parametrize("skipped", [0, 500])
def test_a_list_reads_only_jobs_of_its_account(jobs: list[Job], skipped: int) -> None:
    for job in jobs:
        before = job.pk + skipped if skipped else None
        (plan,) = plans_of(partial(listing.list_jobs, job.account, before=before, limit=LIMIT), table="jobs_job")
        assert plan.indexes == {"job_by_account"}
        assert plan.pages <= PAGES


@pytest.mark.parametrize(
    ("statuses", "index"), [({Status.PENDING}, None), ({Status.FAILED, Status.TIMED_OUT}, "job_by_status")]
)
@pytest.mark.parametrize("skipped", [0, 500])
def test_a_filtered_list_reads_only_matching_jobs(
    jobs: list[Job], statuses: set[Status], index: str | None, skipped: int
) -> None:
    """All jobs match the first statuses, and none the others."""
    filters = Filters(statuses=frozenset(statuses), created_after=EPOCH)
    for job in jobs:
        before = job.pk + skipped if skipped else None
        read = partial(listing.list_jobs, job.account, before=before, limit=LIMIT, filters=filters)
        (plan,) = plans_of(read, table="jobs_job")
        assert not plan.scanned
        assert plan.pages <= PAGES
        assert index is None or plan.indexes == {index}


def test_jobs_are_found_by_id_without_a_scan(jobs: list[Job]) -> None:
    ids = range(jobs[2].pk, jobs[2].pk + 100)
    (plan,) = plans_of(partial(listing.jobs_by_id, jobs[2].account, ids), table="jobs_job")
    assert not plan.scanned
    # At most three pages of the index and one of the table for each id
    assert plan.pages <= 4 * len(ids)


def test_pages_of_a_list_follow_each_other(jobs: list[Job]) -> None:
    account = jobs[1].account
    first = listing.list_jobs(account, before=None, limit=LIMIT).jobs
    second = listing.list_jobs(account, before=first[-1].pk, limit=LIMIT).jobs
    newest = jobs[1].pk + 2_999
    assert [job.pk for job in (*first, *second)] == list(range(newest, newest - 2 * LIMIT, -1))
