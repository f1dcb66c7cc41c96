"""Lists of jobs read only the account's own jobs, even if other accounts have almost all jobs."""

from collections.abc import Iterator
from functools import partial
from itertools import product

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from jobs.enums import Status
from jobs.models import Job
from jobs.results import listing
from jobs.results.listing import EPOCH, Filters
from tests.emptying import empty_database
from tests.factories import make_account, make_client, make_job
from tests.jobs.plans import copy_job, plans_of, reindex_jobs

pytestmark = pytest.mark.django_db
LIMIT = 21
# At most two pages for each row
PAGES = 2 * LIMIT
SEARCHED = 20
# All jobs have these entries.
METADATA = {"env": "prod", "season": "3"}


@pytest.fixture(scope="module")
def jobs(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[list[Job]]:
    """The oldest job of each of three accounts, which have 1, 3,000 and 20,000 jobs, oldest first.

    They are committed, because rows that are rolled back would change the plans of later tests.
    """
    with django_db_blocker.unblock():
        made = fill()
        yield made
        empty_database()
        analyze()


def fill() -> list[Job]:
    made = []
    for count in (0, 3_000, 20_000):
        made.append(make_job(make_client(make_account()), metadata=METADATA))
        if count:
            copy_job(made[-1].pk, count - 1)
    reindex_jobs()
    analyze()
    return made


def analyze() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_job, jobs_metadataentry")


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


@pytest.mark.parametrize("name", ["bot", "nobody"])
@pytest.mark.parametrize("skipped", [0, 500])
def test_a_list_of_a_client_reads_only_its_jobs(jobs: list[Job], name: str, skipped: int) -> None:
    """All jobs are of clients with the first name, and none of the other."""
    filters = Filters(client=name, created_after=EPOCH)
    for job in jobs:
        before = job.pk + skipped if skipped else None
        read = partial(listing.list_jobs, job.account, before=before, limit=LIMIT, filters=filters)
        (plan,) = plans_of(read, table="jobs_job")
        assert plan.indexes == {"job_by_client"}
        assert plan.pages <= PAGES


FAILED = frozenset({Status.FAILED})
SEARCHES = [
    Filters(metadata={"env": "prod"}),
    Filters(metadata={"env": "test"}),
    Filters(metadata={"unknown": "3"}),
    Filters(metadata=METADATA),
    Filters(metadata={**METADATA, "env": "test"}),
    Filters(metadata=METADATA, statuses=frozenset({Status.PENDING}), client="bot", created_after=EPOCH),
    Filters(metadata=METADATA, statuses=FAILED),
    Filters(metadata=METADATA, client="nobody"),
    Filters(client="bot", statuses=frozenset({Status.PENDING})),
    Filters(client="bot", statuses=FAILED),
    Filters(metadata={str(number): "x" for number in range(19)} | {"env": "prod"}),
]


@pytest.mark.parametrize("is_analyzed", [True, False])
def test_a_search_reads_a_bounded_number_of_pages(
    jobs: list[Job], *, is_analyzed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many jobs match each of the filters, and although other accounts have jobs that match."""
    monkeypatch.setattr(listing, "SEARCHED_JOBS", SEARCHED)
    if not is_analyzed:
        forget_statistics()
    for filters, job, skipped in product(SEARCHES, jobs, (None, 500)):
        before = skipped and job.pk + skipped
        read = partial(listing.list_jobs, job.account, before=before, limit=LIMIT, filters=filters)
        (plan,) = plans_of(read, table="jobs_job")
        assert not plan.scanned
        assert not [kind for kind, _, _ in plan.nodes if "Bitmap" in kind]
        # For each index at most two pages for each id, and for each job at most four pages of each index
        count = len(filters.metadata) + len(filters.statuses) + (filters.client is not None)
        assert plan.pages <= count * (2 * SEARCHED + 4) + SEARCHED * 4 * (count + 1)


def forget_statistics() -> None:
    """Remove the statistics of metadata entries, as if the table had never been analyzed."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = 'jobs_metadataentry'::regclass")


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
