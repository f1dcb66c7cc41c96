"""All pages of a filtered list, compared with a filter in Python."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clients.models import Client
from jobs.enums import Status
from jobs.models import Job, MetadataEntry
from jobs.results import listing
from jobs.results.listing import Filters
from simservice.ids import next_id
from tests.factories import make_account, make_client, make_job

START = timezone.now()
STATUSES = [Status.PENDING, Status.QUEUED, Status.FAILED]
ENTRIES = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "1", "2"]))
# The status of each job, the number of its client, its metadata, and its time in minutes
Drawn = tuple[Status, int, dict[str, str], int]
JOBS = st.lists(st.tuples(st.sampled_from(STATUSES), st.integers(0, 1), ENTRIES, st.integers(0, 3)), max_size=25)
FILTERS = st.builds(
    Filters,
    statuses=st.frozensets(st.sampled_from(STATUSES)),
    client=st.sampled_from([None, "one", "two", "three"]),
    created_after=st.none() | st.integers(0, 4).map(lambda minute: START + timedelta(minutes=minute)),
    metadata=ENTRIES,
)


@pytest.fixture
def clients(db: None) -> list[Client]:
    """Two clients of an account and one of another account with the name of the first."""
    account = make_account()
    return [make_client(account, "one"), make_client(account, "two"), make_client(make_account(), "one")]


@pytest.mark.slow
@given(jobs=JOBS, filters=FILTERS, limit=st.integers(1, 6), searched=st.integers(1, 8))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_pages_equal_a_filter_in_python(
    clients: list[Client],
    monkeypatch: pytest.MonkeyPatch,
    jobs: list[Drawn],
    filters: Filters,
    limit: int,
    searched: int,
) -> None:
    monkeypatch.setattr(listing, "SEARCHED_JOBS", searched)
    stored = store(jobs, clients)
    expected = [job.pk for job in reversed(stored) if matches(job, filters)]
    assert all_pages(clients[0], filters, limit=limit) == expected


def store(jobs: list[Drawn], clients: Sequence[Client]) -> list[Job]:
    """Replace all jobs by the drawn ones, each also of another account; return the former, oldest first."""
    template = make_job(clients[0])
    Job.objects.all().delete()
    MetadataEntry.objects.all().delete()
    stored = [[copy_of(template, drawn, client) for client in (clients[drawn[1]], clients[2])] for drawn in jobs]
    Job.objects.bulk_create(job for pair in stored for job in pair)
    return [own for own, _ in stored]


def copy_of(template: Job, drawn: Drawn, client: Client) -> Job:
    """Return a copy of a job with drawn values, not stored."""
    status, _, metadata, minute = drawn
    values = {field.attname: getattr(template, field.attname) for field in Job._meta.concrete_fields}
    number, created = next_id(), START + timedelta(minutes=minute)
    values |= {"id": number, "share_token": str(number), "account_id": client.account_id, "client_id": client.pk}
    values |= {"status": status, "metadata": metadata, "created_at": created}
    ended = {"error_code": "internal", "completed_at": START, "credits_consumed": 0}
    return Job(**values | (ended if status == Status.FAILED else {}))


def matches(job: Job, filters: Filters) -> bool:
    """Return whether a job matches all filters."""
    return (
        (not filters.statuses or job.status in filters.statuses)
        and (filters.client is None or job.client.name == filters.client)
        and (filters.created_after is None or job.created_at >= filters.created_after)
        and filters.metadata.items() <= job.metadata.items()
    )


def all_pages(client: Client, filters: Filters, *, limit: int) -> list[int]:
    """Return the ids on all pages of an account's list."""
    ids: list[int] = []
    before: int | None = None
    # At most one page for each job, and one after each search that ends with the last job
    for _ in range(60):
        page = listing.list_jobs(client.account, before=before, limit=limit, filters=filters)
        assert len(page.jobs) <= limit
        ids += [job.pk for job in page.jobs]
        before = page.jobs[-1].pk if len(page.jobs) == limit else page.searched_to
        if before is None:
            return ids
    raise AssertionError("the list does not end")
